package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/accelmux/accelmux/core/kubeapi/kubeconfig"
)

// connection is how the API server is reached: kubectl's flags and files.
type connection struct {
	rules                         *clientcmd.ClientConfigLoadingRules
	overrides                     *clientcmd.ConfigOverrides
	agentSelector, agentNamespace string
}

// requestRate bounds the requests in a second; there is one for each node.
const requestRate = 50

func newConnection(flags *pflag.FlagSet) *connection {
	c := &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
	flags.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, or ~/.kube/config)")
	clientcmd.BindOverrideFlags(c.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.StringVar(&c.agentSelector, "agent-selector", "app.kubernetes.io/name=accelmux", "labels of the agents' pods")
	flags.StringVar(&c.agentNamespace, "agent-namespace", "", "`namespace` of the agents' pods (default: all)")
	return c
}

// cluster is the API server, and the namespace that the user works in.
type cluster struct {
	client    kubernetes.Interface
	config    *rest.Config
	namespace string
	connection
}

// open does not contact the server.
func (c *connection) open() (*cluster, error) {
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, c.overrides)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", kubeconfig.Explained(c.rules.ExplicitPath, err))
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", kubeconfig.Explained(c.rules.ExplicitPath, err))
	}
	config.QPS, config.Burst = requestRate, 2*requestRate
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &cluster{client: client, config: config, namespace: namespace, connection: *c}, nil
}
