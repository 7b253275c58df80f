# Makes a folder with Debian's unstable suite, or adds packages to it. Its programs run under chroot.
# Run as root: sh -c "$(cat unstable.sh)" sh FOLDER PACKAGE…
set -eu
folder=$1
shift
export DEBIAN_FRONTEND=noninteractive

make() {
    apt-get update -qq || true
    apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 debootstrap
    # Uses the mirror of this machine's own packages, if they are Debian's; else debootstrap chooses one.
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian //p' | head -n 1)
    rm -rf "$1"
    # shellcheck disable=SC2086 # without a mirror there must be no argument
    debootstrap --variant=minbase sid "$1" $mirror
}

inside() { chroot "$folder" env LC_ALL=C "$@"; }

if [ ! -d "$folder" ]; then
    make "$folder.part"
    mv "$folder.part" "$folder"
fi
# A mirror that lags behind has lists that have expired. They are signed all the same.
inside apt-get -o Acquire::Check-Valid-Until=false update -qq
inside apt-get install --download-only --yes --quiet --no-install-recommends "$@"
# The packages are unpacked and not set up: their scripts would make databases and start services.
for package in "$folder"/var/cache/apt/archives/*.deb; do
    dpkg-deb --extract "$package" "$folder"
done
inside ldconfig
# Deletes what is not needed here.
inside apt-get clean
for unread in var/lib/apt/lists var/cache/debconf usr/share/doc usr/share/man usr/share/info usr/share/locale; do
    find "$folder/$unread" -mindepth 1 -delete
done
