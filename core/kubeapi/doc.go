// Package kubeapi connects to the Kubernetes API server: its address, the credentials, and the
// few requests that the agent makes, by client-go over one HTTP client.
// [Client.NodeMetadata] is for a Reflector on one Node, the Event calls are for client-go's
// recorder. [Client.GetPod] is for parameters that the configuration takes from pods.
//
// The package decides nothing and retries nothing.
package kubeapi
