package kubeapi

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNone says that nothing tells where an API server is: no kubeconfig was
// named, and this is not a pod.
var ErrNone = errors.New("no API server is configured")

// Config says where the API server is and how to log in: by the kubeconfig file
// at path, or, with "", as a pod's service account. It is [ErrNone] if there is
// neither. The server is not contacted.
func Config(path string) (*rest.Config, error) {
	if path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, ErrNone
	case err != nil:
		return nil, fmt.Errorf("this is a pod, but its service account cannot be used: %w; "+
			"mount its token (automountServiceAccountToken), or name a profile or a kubeconfig", err)
	}
	return config, nil
}
