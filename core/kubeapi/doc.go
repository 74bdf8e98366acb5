// Package kubeapi connects to the Kubernetes API server: its address, the credentials, and the
// few requests that the agent makes, by one client-go Clientset.
// [Client.NodeMetadata] is for a Reflector on one Node, the Event calls are for client-go's
// recorder. [Client.GetPod] is for parameters that the configuration takes from pods.
//
// The package decides nothing. For Pods and Events client-go tries again when the server asks for it
// (Retry-After), until the context ends; requests for the Node are not tried again.
package kubeapi
