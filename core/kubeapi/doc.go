// Package kubeapi is the way to the Kubernetes API server: where it is, who we are
// there, and the few requests that the agent makes, by client-go over one HTTP
// client. [Client.NodeMetadata] is for a Reflector on one Node, the Event calls are
// for client-go's recorder. Where the configuration says so, single Pods are read.
//
// The package decides nothing and retries nothing.
package kubeapi
