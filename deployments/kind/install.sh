#!/bin/bash
# Builds the image, loads it onto the kind cluster's nodes and installs the chart.
# Run it again after a change. HELM names the helm to use.
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=accelmux
context=kind-$cluster
image=localhost/accelmux:dev
read -ra helm <<<"${HELM:-go tool -modfile=deployments/tools.mod helm}"

docker build -f deployments/docker/Dockerfile -t "$image" \
    --build-arg VERSION="$(git describe --tags --always --dirty 2>/dev/null || echo unknown)" .
kind load docker-image --name "$cluster" "$image"
"${helm[@]}" --kube-context "$context" upgrade --install accelmux deployments/helm/accelmux \
    --namespace kube-system --values deployments/kind/values.yaml
# The image keeps its name, so a new one is only taken by new pods.
kubectl --context "$context" --namespace kube-system rollout restart daemonset/accelmux
kubectl --context "$context" --namespace kube-system rollout status --timeout 2m daemonset/accelmux
kubectl --context "$context" get nodes --label-columns example.com/accelerator
