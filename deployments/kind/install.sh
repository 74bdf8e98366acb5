#!/bin/bash
# Builds the image, loads it onto the kind cluster's nodes and installs the chart,
# one release a profile. Run it again after a change. HELM names the helm to use.
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=accelmux
context=kind-$cluster
image=localhost/accelmux:dev
read -ra helm <<<"${HELM:-go tool -modfile=deployments/tools.mod helm}"

docker build -f deployments/docker/Dockerfile -t "$image" \
    --build-arg VERSION="$(git describe --tags --always --dirty 2>/dev/null || echo unknown)" .
kind load docker-image --name "$cluster" "$image"
for profile in gpu mig fpga; do
    "${helm[@]}" --kube-context "$context" upgrade --install "accelmux-$profile" deployments/helm/accelmux \
        --namespace kube-system --values deployments/kind/values.yaml \
        --set profile="$profile" --set nodeSelector.accelmux\\.io/profile="$profile"
    # The image keeps its name, so a new one is only taken by new pods.
    kubectl --context "$context" --namespace kube-system rollout restart "daemonset/accelmux-$profile"
done
for profile in gpu mig fpga; do
    kubectl --context "$context" --namespace kube-system rollout status --timeout 2m "daemonset/accelmux-$profile"
done
kubectl --context "$context" get nodes --label-columns accelmux.io/profile
