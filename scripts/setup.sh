#!/usr/bin/env bash
# Brings this checkout into a state in which it runs: Python packages in .venv, Java 17 or 21, the two Delta jars.
#   scripts/setup.sh [--dev] [--no-java] [--s3]
# --dev adds what the tests need; --no-java asks for neither Java nor jars; --s3 adds the jars for s3a://. Safe to call at every start:
# when nothing changed it only compares two stamps, needs no network and takes some 40 ms.
# Environment: PYTHON, JAVA_HOME, FEATURELIB_CACHE (default: .cache here), MAVEN_CENTRAL (a mirror),
# FEATURELIB_JAVA_ANY=1 (take any Java). Exit codes: 2 wrong or missing Python or Java, 5 could not fetch.
# Other scripts source this file for its functions and for $root, $venv, $cache, $java, $java_text and $jars.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
cache=${FEATURELIB_CACHE:-$root/.cache}
[[ $cache == /* ]] || cache=$PWD/$cache
first_packages=$root/scripts/before-the-lock.txt
maven=${MAVEN_CENTRAL:-https://repo1.maven.org/maven2}
jar_table=$root/featurelib/spark/jars.txt
s3_table=$root/scripts/s3-jars.txt
needs_s3='' # whether the jars for s3a:// are wanted, too

say() { printf 'featurelib: %s\n' "$*" >&2; }
die() { local code=$1; shift; say "$*"; exit "$code"; }

find_java() { # sets $java and $java_text (its release file, or what `java -version` says)
  local version release hint="install a Java 17 or 21 (for example Temurin or OpenJDK) and put it on the PATH or name it in JAVA_HOME"
  if [[ -n ${JAVA_HOME:-} ]]; then
    java=$JAVA_HOME/bin/java
    [[ -x $java ]] || die 2 "Java 17 or 21 is needed, but JAVA_HOME is $JAVA_HOME and $java is not there: set JAVA_HOME to a Java 17 or 21."
  else
    java=$(command -v java) || die 2 "Java 17 or 21 is needed, and there is no java on the PATH: $hint."
  fi
  release=$(readlink -f "$java") release=${release%/bin/java}/release
  if [[ -f $release ]]; then # saves starting a Java only to ask it
    java_text=$(<"$release")
  else
    java_text=$("$java" -version 2>&1) || die 2 "Java 17 or 21 is needed, and $java does not run: $hint."
  fi
  # The line is found by its words: options picked up from the environment may print lines before it.
  version=$(sed -n 's/^\(JAVA_VERSION=\|.* version \)"\(1\.\)\{0,1\}\([0-9]*\).*/\3/p' <<<"$java_text")
  [[ $version == 17 || $version == 21 || ${FEATURELIB_JAVA_ANY:-} == 1 ]] ||
    die 2 "Java 17 or 21 is needed, and $java is Java ${version:-of an unknown version}: $hint (FEATURELIB_JAVA_ANY=1 tries this one)."
}

find_python() { # sets $python; a candidate counts when it runs, because version managers leave shims that do not
  local candidate candidates=(python3.11 python3.12 python3.13 python3) found='' version
  [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if [[ $version == 3.1[123] ]]; then
      python=$candidate
      "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        die 2 "$python is Python $version without its venv module: install it (on Debian: python$version-venv)."
      return
    fi
    found=" ($candidate is $version)"
  done
  die 2 "Python 3.11, 3.12 or 3.13 is needed and was not found${PYTHON:+ at PYTHON=$PYTHON}$found: install one, or set PYTHON to its path."
}

packages_wanted() { # one line: what .venv must be made from, and for which folder, since paths are written into it
  printf '%s %s\n' "$(cat "$root/uv.lock" "$root/pyproject.toml" "$first_packages" | cksum)" "$root"
}

packages_ready() { # $1: spark or dev; dev contains spark
  local have
  [[ -x $venv/bin/python ]] && { read -r have <"$venv/.featurelib-$1"; } 2>/dev/null && [[ $have == "$(packages_wanted)" ]]
}

choose_jars() { # sets $wanted_jars (path at Maven Central, name, bytes, SHA-256, a line each) and $jars, by the pyspark in .venv
  local found spark='' hadoop='' known='' minor group name version bytes sha
  for found in "$venv"/lib/python3.*/site-packages/pyspark-*.dist-info; do
    spark=${found##*/pyspark-} spark=${spark%.dist-info}
  done
  wanted_jars='' jars=''
  while read -r minor name version bytes sha; do
    [[ $spark != "$minor".* ]] || want_jar io.delta "$name" "$version" "$bytes" "$sha"
  done <"$jar_table"
  [[ -n $wanted_jars ]] || die 2 "pyspark in .venv: expected a version of ${jar_table#"$root/"}, found ${spark:-none}: remove .venv and start again, or install one with .venv/bin/uv pip install pyspark==VERSION."
  [[ -n $needs_s3 ]] || return 0
  for found in "$venv"/lib/python3.*/site-packages/pyspark/jars/hadoop-client-api-*.jar; do
    hadoop=${found##*/hadoop-client-api-} hadoop=${hadoop%.jar}
  done
  while read -r group name version bytes sha; do
    [[ $group != '#'* ]] || continue
    if [[ $name == hadoop-aws ]]; then # the connector is Hadoop's own, of its version; the SDK is not
      known+=${known:+, }$version
      [[ $version == "$hadoop" ]] || continue
    fi
    want_jar "$group" "$name" "$version" "$bytes" "$sha"
  done <"$s3_table"
  [[ $jars == */hadoop-aws-* ]] ||
    die 2 "s3a:// with pyspark $spark: its Hadoop is ${hadoop:-unknown}, and ${s3_table#"$root/"} has the jars for $known: set FEATURELIB_S3=0 and add --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:$hadoop."
}

want_jar() { # group, name, version, bytes, SHA-256
  wanted_jars+=${wanted_jars:+$'\n'}"${1//.//}/$2/$3 $2-$3.jar $4 $5"
  jars+=${jars:+,}$cache/jars/$2-$3.jar
}

jars_ready() { # a jar gets its name only after its checksum was right; the size is looked at in case it was damaged later
  local at file bytes sha
  while read -r at file bytes sha; do
    [[ $(wc -c <"$cache/jars/$file") -eq $bytes ]] || return 1
  done 2>/dev/null <<<"$wanted_jars"
}

install_packages() { # $1: spark or dev
  # The commands that the README goes on with read tables and ask live clusters.
  local log=$root/.cache/setup.log extras=(--extra spark --extra lake --extra kafka --extra zookeeper --extra metrics)
  [[ $1 == spark ]] || extras+=(--extra dev)
  say "installing Python packages into .venv …"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "$venv" >"$log" 2>&1 || die 2 "$python could not make $venv: $(tail -n 1 "$log")"
  fi
  rm -f "$venv"/.featurelib-*
  "$venv/bin/python" -m pip install --quiet --require-hashes -r "$first_packages" >"$log" 2>&1 ||
    die 5 "could not install uv with pip, which needs the network once (pip said: $(last_error "$log")): check the network, or name a package index in PIP_INDEX_URL, and start again."
  # First without the network: a venv that is complete, or a warm cache, is enough.
  local uv=("$venv/bin/uv" sync --project "$root" --python "$venv/bin/python" --locked --inexact --no-progress "${extras[@]}")
  export UV_PROJECT_ENVIRONMENT=$venv
  if ! "${uv[@]}" --offline >"$log" 2>&1 && ! "${uv[@]}" >"$log" 2>&1; then
    ! grep -q 'needs to be updated' "$log" || die 2 "uv.lock does not fit pyproject.toml: run .venv/bin/uv lock."
    die 5 "could not install the packages of uv.lock, which needs the network once (uv said: $(last_error "$log")): check the network, read $log, and start again."
  fi
  packages_wanted >"$venv/.featurelib-spark"
  [[ $1 == spark ]] || packages_wanted >"$venv/.featurelib-$1"
}

last_error() { # the last line of a log that names an error, without its decoration
  { grep -iE 'error|caused by' "$1" || tail -n 1 "$1"; } | tail -n 1 | sed 's/^[^[:alnum:]]*//; s/[. ]*$//'
}

fetch_jars() { # in Python, since curl and wget are missing in small images
  mkdir -p "$cache/jars"
  say "fetching the Delta jars${needs_s3:+ and those for s3a://} …"
  "$venv/bin/python" - "$maven" "$cache/jars" "$wanted_jars" <<'PY'
import hashlib, http.client, os, sys, time, urllib.request

base, folder, jars = sys.argv[1:]
for at, file, size, expected in map(str.split, jars.splitlines()):
    kept = os.path.join(folder, file)
    if os.path.isfile(kept) and os.path.getsize(kept) == int(size):
        continue
    url = f"{base.rstrip('/')}/{at}/{file}"
    for pause in (0.5, 1.5, None):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                body = answer.read()
            break
        except (OSError, ValueError, http.client.HTTPException) as error:
            if pause is None:
                sys.exit(f"featurelib: could not fetch {url}, which is needed once ({error}): "
                         "check the network, or name a mirror in MAVEN_CENTRAL, and start again.")
            time.sleep(pause)
    found = hashlib.sha256(body).hexdigest()
    if found != expected:
        sys.exit(f"featurelib: {url} is not the jar that was expected (SHA-256 {found}, expected {expected}) "
                 "and was not kept: check what answers there, or name another mirror in MAVEN_CENTRAL.")
    part = os.path.join(folder, f".{file}.{os.getpid()}")
    with open(part, "wb") as out:  # renamed last, so that half a jar is never a jar
        out.write(body)
    os.replace(part, kept)
PY
}

setup() { # $1: spark or dev; $2: java or no-java
  [[ $2 == no-java ]] || find_java
  if packages_ready "$1" && { [[ $2 == no-java ]] || { choose_jars && jars_ready; }; }; then return; fi

  packages_ready "$1" || find_python
  SECONDS=0
  say "setting up (once, about a minute) …"
  # One setup at a time. The lock belongs to the open file, so Python takes it for this shell; the kernel frees it
  # when the shell ends, however it ends. (The command flock does not exist everywhere.)
  mkdir -p "$root/.cache"
  exec 9>"$root/.cache/setup.lock"
  "${python:-$venv/bin/python}" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
  packages_ready "$1" || install_packages "$1"
  [[ $2 == no-java ]] || { choose_jars && jars_ready; } || fetch_jars || exit 5
  exec 9>&-
  say "ready after $SECONDS s."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  extra=spark with=java
  for word in "$@"; do
    case $word in
      --dev) extra=dev ;;
      --no-java) with=no-java ;;
      --s3) needs_s3=yes ;;
      *) die 2 "scripts/setup.sh knows --dev, --no-java and --s3, not $word." ;;
    esac
  done
  setup "$extra" "$with"
fi
