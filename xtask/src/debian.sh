# Installs a Debian package for its programs alone: its service is neither started nor enabled.
# Run as root: sh -c "$(cat debian.sh)" sh PACKAGE SERVICE
set -eu
package=$1 service=$2
policy=/usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive

# Packages ask this file whether they may start their services. A machine that has one keeps its own.
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

# A source that can't be reached may not be the one that is needed: the next command tells.
apt-get update -qq || true
apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 "$package"

# Against a start at the next boot, which the policy does not govern; and if the machine's own policy let it start now.
if command -v systemctl >/dev/null; then
    systemctl --root=/ --quiet disable "$service"
else
    update-rc.d "$service" disable
fi
service "$service" stop >/dev/null 2>&1 || true
