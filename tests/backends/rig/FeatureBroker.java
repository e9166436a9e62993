import java.io.FileInputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaServer;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.utils.Time;

/**
 * A real broker of ZooKeeper mode (3.9) that advertises chosen features: FeatureBroker FILE name=min-max ...
 * A stock broker of that mode supports nothing, so that nothing could be finalized; Kafka's own tests of KIP-584
 * set the ranges in the same place.
 */
public class FeatureBroker {
    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(words[0])) {
            properties.load(file);
        }
        Map<String, SupportedVersionRange> ranges = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].lastIndexOf('=');
            String[] ends = words[i].substring(equals + 1).split("-");
            ranges.put(words[i].substring(0, equals),
                new SupportedVersionRange(Short.parseShort(ends[0]), Short.parseShort(ends[1])));
        }
        KafkaServer server = new KafkaServer(
            KafkaConfig.fromProps(properties), Time.SYSTEM, scala.Option.empty(), false);
        server.brokerFeatures().setSupportedFeatures(Features.supportedFeatures(ranges));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
        server.startup();
        System.out.println("FeatureBroker serves");
        server.awaitShutdown();
    }
}
