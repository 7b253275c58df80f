# The program `lock`, alone in an image.
#
#   docker build --tag lock .
#   docker run --rm lock --version
#   docker run --rm lock status nightly-report --on redis://host
#
# In an image of your own, which has the commands to run:
#
#   COPY --from=lock /lock /usr/local/bin/lock

FROM rust:1.95-alpine AS build
# Headers and a C compiler, for ring and SQLite; protoc and its files, for etcd.
RUN apk add --no-cache build-base protobuf-dev
WORKDIR /onelock
COPY . .
# On Alpine, Rust links C's library statically.
RUN cargo build --locked --profile dist --package lock-cli --features etcd

FROM scratch
COPY --from=build /onelock/target/dist/lock /lock
# Without a URL, locks are in a file, which lasts as long as the container's volume does.
ENV XDG_STATE_HOME=/state
VOLUME /state
ENTRYPOINT ["/lock"]
