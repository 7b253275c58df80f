# Installs Debian packages for their programs only: a service of theirs is neither started nor enabled.
# Run as root: sh -c "$(cat debian.sh)" sh SERVICE PACKAGE…
set -eu
service=$1
shift
policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.d/none-by-lock.conf
export DEBIAN_FRONTEND=noninteractive

undo() {
    [ -z "${ours-}" ] || rm -f "$policy"
    rm -f "$clusters"
}
trap undo EXIT
trap 'exit 1' HUP INT TERM

# Packages ask this file whether they may start their services. A machine that has one keeps its own.
if [ ! -e "$policy" ]; then
    ours=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
# PostgreSQL's packages ask this file whether to make a database cluster.
case " $*" in *" postgresql"*)
    mkdir -p "${clusters%/*}"
    echo 'create_main_cluster = false' >"$clusters"
    ;;
esac

# A source that can't be reached may not be needed. If it is, the next command fails.
apt-get update -qq || true
apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"

[ -n "$service" ] || exit 0
# Disables the start at the next boot, which the policy does not control. Stops the service if the machine's own
# policy has let it start.
if command -v systemctl >/dev/null; then
    systemctl --root=/ --quiet disable "$service"
else
    update-rc.d "$service" disable
fi
service "$service" stop >/dev/null 2>&1 || true
