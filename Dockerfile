# syntax=docker/dockerfile:1

# The image of the sidecar: one static binary, distroless, as a user without
# privileges.
#
#   docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT="$(git rev-parse HEAD)" -t lockstep .
#   docker buildx build --platform linux/amd64,linux/arm64 ...
#
# Both base images are arguments: pin them by digest, or take them from a mirror.
# The last stage needs nothing of a distribution but the certificates of public
# authorities, so an image without a shell will do.
ARG BUILD_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

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

FROM ${BASE_IMAGE}
ARG VERSION=""
ARG COMMIT=""
LABEL org.opencontainers.image.title="lockstep" \
      org.opencontainers.image.description="One reconciler, and a readiness gate, for an HA Kubernetes control plane" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /out/sidecar /sidecar

# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
# The HTTP API. By default it listens on loopback only: see --listen.
EXPOSE 8086
ENTRYPOINT ["/sidecar"]
CMD ["run"]
