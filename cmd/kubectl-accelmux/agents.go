package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metricsPort is the name of the port of an agent's HTTP endpoint, as the chart names it.
const metricsPort = "metrics"

const (
	// askLimit is how long an agent may take to answer.
	askLimit = 10 * time.Second
	// maxAnswer bounds an agent's answer, in bytes: 4,096 devices of each of several backends.
	maxAnswer = 64 << 20
)

// agent is the pod that serves a node.
type agent struct {
	namespace, pod, container string
	// port is that of its HTTP endpoint; 0 if it has none.
	port  int32
	ready bool
}

// agents returns the agent of each node; of two in an update the one that is ready, or the older one.
func (c *cluster) agents(ctx context.Context) (map[string]agent, error) {
	pods, err := c.client.CoreV1().Pods(c.agentNamespace).List(ctx, metav1.ListOptions{LabelSelector: c.agentSelector, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list the agents' pods: %w; if you may list pods of their namespace only, name it with --agent-namespace", err)
	}
	found, since := map[string]agent{}, map[string]time.Time{}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		a := agentOf(&pod)
		node, created := pod.Spec.NodeName, pod.CreationTimestamp.Time
		if before, ok := found[node]; !ok || a.ready && !before.ready || a.ready == before.ready && created.Before(since[node]) {
			found[node], since[node] = a, created
		}
	}
	return found, nil
}

// noAgent returns why a node has no agent: there is no such node, or no pod of the agents runs on it.
func (c *cluster) noAgent(ctx context.Context, node string) error {
	if _, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("no agent of accelmux runs on node %s: see the Events of the agents' DaemonSet", node)
}

func agentOf(pod *corev1.Pod) agent {
	a := agent{namespace: pod.Namespace, pod: pod.Name, container: pod.Spec.Containers[0].Name}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == metricsPort {
				a.container, a.port = container.Name, port.ContainerPort
			}
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			a.ready = condition.Status == corev1.ConditionTrue
		}
	}
	return a
}

// ask decodes what an agent answers at a path, by the API server's proxy.
func (c *cluster) ask(ctx context.Context, a agent, path string, into any) error {
	if a.port == 0 {
		return fmt.Errorf("pod %s/%s has no port named %s: set metrics.port of the chart", a.namespace, a.pod, metricsPort)
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := c.client.CoreV1().Pods(a.namespace).ProxyGet("http", a.pod, strconv.Itoa(int(a.port)), path, nil).Stream(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: it needs the verb get on pods/proxy, see docs/kubectl.md", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the agent's pod %s/%s does not know %s: it has ended, or is of an earlier version", a.namespace, a.pod, path)
	case err != nil:
		return fmt.Errorf("the agent's pod %s/%s does not answer on %s: %w; a NetworkPolicy must let the API server in",
			a.namespace, a.pod, net.JoinHostPort("", strconv.Itoa(int(a.port))), err)
	}
	defer func() { _ = answer.Close() }() // only read
	if err := json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("the answer of pod %s/%s cannot be read: %w; is it of another version?", a.namespace, a.pod, err)
	}
	return nil
}
