#!/usr/bin/env bash
# Runs a job with Spark and Delta; sets everything up at the first start. The help below says how.
set -euo pipefail
# shellcheck source=scripts/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"

help() {
  cat <<'HELP'
Usage: ./spark-submit.sh [SPARK OPTION…] [JOB [JOB OPTION…]]

Runs a job of featurelib with Spark. Without a JOB: the nightly on data/samples,
with new tables into those of 29 nights before.
The first start installs what is needed into .venv and .cache; afterwards no network is needed.

JOB   nightly   ingest, refine and audit, one after the other
      ingest    landing files into bronze tables
      refine    bronze into silver tables
      audit     silver into gold tables, reports and plans
      a path    any other Python file, e.g. my/job.py

Examples
  ./spark-submit.sh
  ./spark-submit.sh nightly --landing /data/landing --tables /data/tables --out /data/reports
  ./spark-submit.sh audit --help
  ./spark-submit.sh --driver-memory 4g nightly --landing /data/landing --tables /data/tables
  MASTER=spark://host:7077 ./spark-submit.sh nightly --conf spark.sql.shuffle.partitions=64 --tables …

Spark options, before or after JOB; every other word is the job's, and so is everything after --
  --conf NAME=VALUE  --name  --deploy-mode  --driver-memory  --driver-cores  --executor-memory
  --executor-cores  --num-executors  --total-executor-cores

Environment
  MASTER                  where to run; default local[N,3], N being this machine's cores, 4 at most; what fails is
                          tried 3 times
  FEATURELIB_FAST_START   0: no shortcuts at the start of a local run. They are a class archive (made once, in
                          the background after the first run, about 200 MB in .cache), Java's first compiler
                          only, its simplest garbage collector and no adaptive plans: best for small fleets,
                          but they cap the peak speed of Spark's own SQL. Use 0 for large fleets.
  FEATURELIB_SPARK_LOG    how much Spark itself says: off (default; it still says when it waits for workers),
                          error, warn, info
  FEATURELIB_TRACE        1: stack traces too, of what went wrong and of what Spark says
  FEATURELIB_S3           0: bring no jars for s3a://, because the cluster or --conf spark.jars.packages does
  FEATURELIB_CACHE        where jars and the class archive are kept; default .cache
  MAVEN_CENTRAL           a mirror of Maven Central, for the first start
  PYTHON, JAVA_HOME       the Python (3.11 to 3.13) and the Java 17 or 21 to use
  PYSPARK_PYTHON          the executors' Python on a cluster, with featurelib's dependencies; default .venv's

Exit codes: the job's, or 2 usage, wrong or missing Python or Java; 5 could not fetch at the first start.
HELP
}

job='' spark_options=() job_options=() wants_job_help=''
while (($#)); do
  case $1 in
    --conf | --name | --deploy-mode | --driver-memory | --driver-cores | --executor-memory | --executor-cores | \
      --num-executors | --total-executor-cores)
      (($# > 1)) || die 2 "$1 needs a value; ./spark-submit.sh --help shows examples."
      spark_options+=("$1" "$2")
      shift
      ;;
    --conf=* | --name=* | --deploy-mode=* | --driver-memory=* | --driver-cores=* | --executor-memory=* | \
      --executor-cores=* | --num-executors=* | --total-executor-cores=*)
      spark_options+=("${1%%=*}" "${1#*=}")
      ;;
    --)
      shift
      job_options+=("$@")
      break
      ;;
    *)
      if [[ -n $job ]]; then
        [[ $1 != -h && $1 != --help ]] || wants_job_help=yes
        job_options+=("$1")
      elif [[ $1 == -h || $1 == --help ]]; then
        help
        exit
      elif [[ $1 == -* ]]; then
        die 2 "$1 is not an option of Spark's that is passed on: options of a job come after its name, e.g. ./spark-submit.sh nightly $1 …; see --help."
      else
        job=$1
      fi
      ;;
  esac
  shift
done
case ${job:=nightly} in
  *.py) file=$job ;;
  *) file=$root/jobs/$job.py ;;
esac
if [[ ! -f $file ]]; then
  known=$(cd "$root" && echo jobs/[a-z]*.py) known=${known//jobs\//}
  die 2 "there is no job $job ($file is not a file): the jobs are ${known//.py/}, or give the path of a .py file."
fi

trap 'say "interrupted; run again."; exit 130' INT # until the job itself can say so
if [[ -n $wants_job_help ]]; then # needs no Spark and should not wait for it
  setup spark no-java
  exec "$venv/bin/python" "$file" ${job_options[@]+"${job_options[@]}"}
fi
if [[ ${FEATURELIB_S3:-1} != 0 && " ${spark_options[*]-} ${job_options[*]-}" == *[\ =]s3a://* ]]; then
  needs_s3=yes
fi
setup spark java

# driver.sh opens stdout and stderr a second time: where they are files, all writers have to append (make does the same).
if [[ -f /dev/fd/1 || -f /dev/fd/2 ]]; then
  "$venv/bin/python" -IS -c 'import fcntl, os
for fd in 1, 2: fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)'
fi

cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
master=${MASTER:-local[$((cores > 4 ? 4 : cores)),3]} # a worker that is killed is not the end of the night
spark_home=$(echo "$venv"/lib/python3.*/site-packages/pyspark)
export PYTHONHASHSEED=0 # as Spark's own spark-submit does
# The driver's Python is .venv's, by way of driver.sh; whatever pyspark settings of other projects say.
export FEATURELIB_PYTHON=$venv/bin/python PYSPARK_DRIVER_PYTHON=$root/scripts/driver.sh
local_run=''
case $master in
  local | local\[*)
    local_run=yes
    export PYSPARK_PYTHON=$venv/bin/python SPARK_LOCAL_IP=127.0.0.1
    # A task without memory fails, and the job says so; else Spark ends its process there and then, with 52.
    spark_options=(--conf spark.executor.killOnFatalError.depth=0 ${spark_options[@]+"${spark_options[@]}"})
    ;;
  *) export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$venv/bin/python} ;;
esac

# Where nothing can be written there, Spark ends with a code and words of its own.
scratch=''
IFS=, read -ra folders <<<"${SPARK_LOCAL_DIRS:-/tmp}"
for folder in "${folders[@]}"; do
  while [[ ! -e $folder && $folder == */* ]]; do folder=${folder%/*}; done # it is made
  [[ ! -d ${folder:-/} || ! -w ${folder:-/} ]] || scratch=yes
done
[[ -n $scratch ]] ||
  die 5 "Spark's scratch ${SPARK_LOCAL_DIRS:-/tmp}: this user may not write to any of these folders. Set SPARK_LOCAL_DIRS to a folder of this user, and run the command again."

submit=(--master "$master" --jars "$jars" --properties-file "$root/conf/spark-defaults.conf")
if [[ -n $local_run && ${FEATURELIB_FAST_START:-1} != 0 ]]; then
  # A plan that is made again between two jobs costs a small fleet more than it saves, and each query more jobs.
  submit+=(--conf spark.sql.adaptive.enabled=false)
fi
if [[ -z $local_run ]]; then # executors elsewhere import the package from a zip; it is made again when a source is newer
  package=$cache/featurelib-$(printf %s "$root" | cksum | tr ' ' -).zip # a cache may serve several checkouts
  if [[ ! -f $package || -n $(find "$root/featurelib" -name __pycache__ -prune -o -newer "$package" -print) ]]; then
    "$venv/bin/python" - "$root" "$package.$$" <<'PY'
import pathlib, sys, zipfile

root, package = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as out:
    for path in sorted((root / "featurelib").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            out.write(path, path.relative_to(root))
PY
    mv "$package.$$" "$package"
  fi
  submit+=(--py-files "$package")
fi

# The next lines do what Spark's bin/spark-class does: Spark's launcher writes the command, and we run it. They
# leave out a Java module that featurelib does not use, and which has Java print a warning at every start.
export SPARK_HOME=$spark_home
set +u
# shellcheck disable=SC1091
. "$SPARK_HOME/bin/load-spark-env.sh"
set -u
command=()
while IFS= read -r -d '' word; do
  [[ $word == --add-modules=jdk.incubator.vector ]] || command+=("${word#$'\n'}")
done < <(
  "$java" -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$SPARK_HOME/jars/*" \
    org.apache.spark.launcher.Main org.apache.spark.deploy.SparkSubmit \
    "${submit[@]}" ${spark_options[@]+"${spark_options[@]}"} "$file" ${job_options[@]+"${job_options[@]}"} || true
)
# An empty word comes first; then java, -cp, the class path and the rest.
[[ ${command[2]:-} == -cp ]] || die 2 "Spark did not accept its options: ${spark_options[*]-}."
class_path=${command[3]}

flags=("-Dlog4j2.configurationFile=$root/conf/log4j2.properties")
if [[ -n $local_run ]]; then
  # With SPARK_HOME, Python would import pyspark from a zip and compile it at every start, and not from .venv.
  unset SPARK_HOME
fi
if [[ -n $local_run && ${FEATURELIB_FAST_START:-1} != 0 ]]; then
  flags+=(-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m)
  [[ " ${command[*]} " == *" -XX:+Use"*"GC "* ]] || flags+=(-XX:+UseSerialGC)
  # A class archive fits one Java and one set of jars; Java ignores one that does not fit. It also finds no class in
  # it where the path of the jars holds a blank, so none is made there.
  archive=$cache/classes-$(printf '%s\n' "$java_text" "$class_path" "$(date -r "$spark_home/jars" +%s)" | cksum | tr ' ' -).jsa
  if [[ -f $archive ]]; then
    flags+=("-XX:SharedArchiveFile=$archive" -Xshare:auto)
  elif [[ $class_path != *' '* && ${CI:-} != true && -w $cache ]]; then # in CI nobody comes back to use it
    # This run writes down its classes, which costs nothing. When it has ended, the archive is made from the list
    # at the lowest priority (half a minute of one core; at the end of this run it would keep its user waiting).
    list=$archive.$$.list
    flags+=("-XX:DumpLoadedClassList=$list")
    (
      while kill -0 $$ 2>/dev/null; do sleep 1; done
      # Only one of several runs, and only from a run that got as far as writing a table.
      exec 8>"$archive.lock"
      if "$venv/bin/python" -IS -c 'import fcntl; fcntl.flock(8, fcntl.LOCK_EX | fcntl.LOCK_NB)' && [[ ! -f $archive ]] &&
        grep -qx 'org/apache/parquet/hadoop/ParquetFileWriter' "$list"; then
        nice -n 19 "${command[1]}" -Xshare:dump -XX:+UseSerialGC -Xlog:disable -cp "$class_path" \
          "-XX:SharedClassListFile=$list" "-XX:SharedArchiveFile=$archive.part" && mv "$archive.part" "$archive"
      fi
      rm -f "$list"
    ) </dev/null >/dev/null 2>&1 &
  fi
fi
# Ctrl-C reaches all of these processes. The job says so; the sed dies of it, and with it goes whatever Spark has to
# say about workers that are gone. Traces of workers are left out: what ends a job it says itself, in a line. 9 is the
# caller's stderr, for driver.sh.
traces='/^Traceback (most recent call last):$/,/^[^[:space:]T]/d'
[[ ${FEATURELIB_TRACE:-} != 1 ]] || traces=''
exec "${command[1]}" "${flags[@]}" "${command[@]:2}" 9>&2 2> >(exec sed -u "$traces" >&2)
