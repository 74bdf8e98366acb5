package realkubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// NodeName is the name of the kubelet's Node.
const NodeName = "node-1"

// Release returns the release of the kubelet in a program.
func Release(ctx context.Context, program string) (string, error) {
	output, err := exec.CommandContext(ctx, program, "-release").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its release: %w", program, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// Cluster is an API server of the kubelet's release, with one Node: the program manager in its other
// role, a process that outlives kubelets.
type Cluster struct {
	// URL is its address.
	URL string
	kubernetes.Interface

	cmd   *exec.Cmd
	input io.Closer
}

// StartCluster starts the API server. Stop must follow.
func StartCluster(ctx context.Context, program string, log io.Writer) (*Cluster, error) {
	// No context: the process ends with Stop, or with its input, which is ours.
	cmd := exec.CommandContext(context.Background(), program, "-cluster")
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start API server: %w", err)
	}
	c := &Cluster{cmd: cmd, input: input}
	if err := c.connect(ctx, output); err != nil {
		return nil, errors.Join(fmt.Errorf("start API server: %w", err), c.Stop())
	}
	return c, nil
}

// connect reads the server's address and creates the Node.
func (c *Cluster) connect(ctx context.Context, output io.Reader) error {
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read its address: %w", err)
	}
	c.URL = strings.TrimSpace(line)
	if c.Interface, err = kubernetes.NewForConfig(&rest.Config{Host: c.URL, QPS: -1}); err != nil {
		return err
	}
	_, err = c.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}, metav1.CreateOptions{})
	return err
}

// Stop ends the process. Its objects are gone.
func (c *Cluster) Stop() error {
	return errors.Join(c.input.Close(), c.cmd.Wait())
}

// WriteKubeconfig writes a kubeconfig file for the server.
func (c *Cluster) WriteKubeconfig(path string) error {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: c.URL}
	config.Contexts["test"] = &api.Context{Cluster: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}
