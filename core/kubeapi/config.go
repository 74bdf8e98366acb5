package kubeapi

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/accelmux/accelmux/core/kubeapi/kubeconfig"
)

// ErrNone means that no API server is configured: there is no path of a kubeconfig, and the
// process does not run in a pod.
var ErrNone = errors.New("no API server is configured")

// Config returns the address of the API server and the credentials: those of the kubeconfig
// file at path or, with "", of the pod's service account. It returns [ErrNone] if there is
// neither. It does not contact the server.
func Config(path string) (*rest.Config, error) {
	if path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig %s: %w", path, kubeconfig.Explained(path, err))
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
