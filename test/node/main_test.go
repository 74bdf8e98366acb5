package node

import (
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// What node.sh hands to the tests.
var (
	// scripts is the directory of node.sh, chart that of the Helm chart, bin that
	// of the accelmux programs, state that of the node itself.
	scripts, chart, bin, state string
	// client is an administrator's.
	client kubernetes.Interface
)

// took is how long each test ran, in their order.
var took []string

func TestMain(m *testing.M) {
	if err := enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	start := time.Now()
	code := m.Run()
	for _, line := range took {
		fmt.Println(line)
	}
	fmt.Printf("%6.1fs in all\n", time.Since(start).Seconds())
	os.Exit(code)
}

// enter reads what node.sh says of the node.
func enter() error {
	for name, value := range map[string]*string{
		"NODE_SCRIPTS": &scripts, "CHART": &chart, "BIN": &bin, "NODE_STATE": &state,
	} {
		if *value = os.Getenv(name); *value == "" {
			return fmt.Errorf("%s is not set: these tests run inside a node that node.sh makes; use `make test-node` or `test/node/node.sh test -run NAME`", name)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read the node's kubeconfig: %w", err)
	}
	// The limits are against many clients; here they would only blur what is measured.
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	client, err = kubernetes.NewForConfig(config)
	return err
}
