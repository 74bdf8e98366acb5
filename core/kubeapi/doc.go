// Package kubeapi is the way to the Kubernetes API server: where it is, who we
// are there, and the few requests that the agent makes, all over one HTTP
// client. It watches the metadata of one Node, rarely looks at what its status says of
// kubelet and the container runtime, applies labels to it, and writes Events. Where
// the configuration says so, it reads single Pods.
//
// The package decides nothing and retries nothing: its callers have the deadlines
// and the backoff. It knows only the types that it needs, because a client for
// every API of Kubernetes costs each node more memory than the agent itself.
package kubeapi
