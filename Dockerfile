# syntax=docker/dockerfile:1

# The image of the sidecar: one static binary and the certificates of public authorities, as a user
# without privileges.
#
#   docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT="$(git rev-parse HEAD)" -t lockstep .
#   docker buildx build --platform linux/amd64,linux/arm64 ...
#
# It has no base: nothing of a distribution is in it that has to be kept up to date. What compiles is an
# argument: pin it by digest, or take it from a mirror. The files of a release are not built from here,
# and need no other image (build/image).
ARG BUILD_IMAGE=golang:1.26

# The compiler runs on the building machine and compiles for the target:
# nothing is emulated.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOCACHE=/cache/go-build GOMODCACHE=/cache/go-mod

# The modules change less often than the source: a layer of their own.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache/go-mod go mod download

COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=""
ARG COMMIT=""
ARG DATE=""
RUN --mount=type=cache,target=/cache/go-mod \
    --mount=type=cache,target=/cache/go-build \
    GOOS="${TARGETOS}" GOARCH="${TARGETARCH}" LDFLAGS=" \
      -s -w -funcalign=4 \
      -X github.com/lockstep-dev/lockstep/internal/buildinfo.version=${VERSION} \
      -X github.com/lockstep-dev/lockstep/internal/buildinfo.commit=${COMMIT} \
      -X github.com/lockstep-dev/lockstep/internal/buildinfo.date=${DATE}" \
      build/sidecar /out/sidecar

FROM scratch
ARG VERSION=""
ARG COMMIT=""
LABEL org.opencontainers.image.title="lockstep" \
      org.opencontainers.image.description="One reconciler, and a readiness gate, for an HA Kubernetes control plane" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/sidecar /sidecar
ENV PATH=/ SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt

# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
# The HTTP API. By default it listens on loopback only: see --listen.
EXPOSE 8086
ENTRYPOINT ["/sidecar"]
CMD ["run"]
