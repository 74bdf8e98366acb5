package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxPod bounds the answer to GetPod: etcd holds 1.5 MiB in one object, and the
// server adds what is the same for all.
const maxPod = 4 << 20

// Pod is what the agent reads of a Pod: no more is kept in memory, or decoded. The
// fields are those of k8s.io/api/core/v1.
type Pod struct {
	Metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string      `json:"nodeName"`
		Containers     []Container `json:"containers"`
		InitContainers []Container `json:"initContainers"`
	} `json:"spec"`
}

// Container is a container of a Pod.
type Container struct {
	Name string   `json:"name"`
	Env  []EnvVar `json:"env"`
	// RestartPolicy is "Always" for an init container that goes on beside the others.
	RestartPolicy string `json:"restartPolicy"`
	Resources     struct {
		Limits map[string]resource.Quantity `json:"limits"`
	} `json:"resources"`
}

// EnvVar is a variable of a container.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// ValueFrom is not empty if the value is somewhere else.
	ValueFrom map[string]struct{} `json:"valueFrom"`
}

// GetPod returns a Pod.
func (c *Client) GetPod(ctx context.Context, namespace, name string) (*Pod, error) {
	body, err := c.core.Get().Namespace(namespace).Resource("pods").Name(name).MaxRetries(0).Stream(ctx)
	if err != nil {
		return nil, brief(err)
	}
	defer func() { _ = body.Close() }()
	pod := &Pod{}
	if err := json.NewDecoder(io.LimitReader(body, maxPod)).Decode(pod); err != nil {
		return nil, fmt.Errorf("the API server's answer is not a Pod: %w", err)
	}
	return pod, nil
}
