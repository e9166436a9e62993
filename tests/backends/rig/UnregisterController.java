import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/**
 * `kafka-cluster.sh unregister-controller` of Kafka 4.4 in one line: the tool is not on Maven
 * Central, the request that it makes is in kafka-clients (KIP-1312). Arguments: brokers, id.
 */
public class UnregisterController {
    public static void main(String[] words) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0]))) {
            admin.unregisterController(Integer.parseInt(words[1])).all().get();
        }
    }
}
