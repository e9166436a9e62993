"""Real Kafka and ZooKeeper as processes on loopback, for tests; nothing here imitates Kafka.

A test asks for a fixture of tests/backends/conftest.py and gets a RunningCluster. Jars come from
Maven Central once (jars.toml) and are kept in $FEATURELIB_CACHE/kafka or .cache/kafka; without
them, Java or the network a test is skipped and says why. No process outlives the test run.

    cluster.bootstrap             "127.0.0.1:41001,127.0.0.1:41003": listeners of all brokers
    cluster.controller_bootstrap  the same of all controllers; "" in ZooKeeper mode
    cluster.zookeeper             "127.0.0.1:41005/kafka" in ZooKeeper mode, else ""
    cluster.cluster_id            as formatted; "" in ZooKeeper mode
    cluster.nodes[1]              id, release, broker and controller ("host:port" or ""), process
    cluster.security              None for plaintext; .client("viewer"): kafka-python's keywords
    cluster.stop_node(2)          an orderly stop; kill=True: SIGKILL (it is fenced 9 s later)
    cluster.start_node(2)         starts it, also one that never ran, and waits until it serves
    cluster.logs(2)               what the node printed
    cluster.features_tool("--bootstrap-server", cluster.bootstrap, "describe")
                                  the real kafka-features, as a CompletedProcess

`start_kraft` (kraft.py) and `start_zookeeper_mode` (zookeeper.py) make clusters of any shape; the
factory fixture `kraft_cluster` does so for one test and ends them with it.
"""
