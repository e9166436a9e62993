#!/usr/bin/env bash
# What a container of the nightly's image runs: a job, as ./spark-submit.sh does; or, where Spark on
# Kubernetes says `driver …` or `executor`, that part of it.
set -euo pipefail

case ${1:-} in
  driver | executor)
    SPARK_HOME=$(echo /opt/featurelib/.venv/lib/python3.*/site-packages/pyspark)
    export SPARK_HOME
    ;;
  *) exec /opt/featurelib/spark-submit.sh "$@" ;;
esac

if [[ $1 == driver ]]; then
  shift
  exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
fi
options=()
for name in "${!SPARK_JAVA_OPT_@}"; do options+=("${!name}"); done
# SPARK_CLASSPATH is spark.executor.extraClassPath.
exec java ${options[@]+"${options[@]}"} "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:-/opt/spark/conf}:$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
