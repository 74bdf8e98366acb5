package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxNode bounds a Node in the server's answer: etcd holds 1.5 MiB in one object.
	maxNode = 4 << 20
	// nodeSeconds is how long the server may take to find that there is no Node.
	nodeSeconds = int64(5)
)

// NodeSoftware returns the releases that a Node names of its kubelet and of its
// container runtime, such as v1.31.14 and containerd://1.7.13; "" for what it does
// not name. It is the first event of a watch that ends there: so the right to watch,
// which the agent has, is enough.
func (c *Client) NodeSoftware(ctx context.Context, name string) (kubelet, runtime string, err error) {
	seconds := nodeSeconds
	options := &metav1.ListOptions{
		Watch: true, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), TimeoutSeconds: &seconds,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.core.Get().Resource("nodes").VersionedParams(options, metav1.ParameterCodec).
		SetHeader("Accept", "application/json").MaxRetries(0).Stream(ctx)
	if err != nil {
		return "", "", brief(err)
	}
	defer func() { _ = body.Close() }()
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Message string          `json:"message"`
			Status  json.RawMessage `json:"status"`
		} `json:"object"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxNode)).Decode(&event); err != nil {
		if errors.Is(err, io.EOF) {
			err = apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
		} else {
			err = fmt.Errorf("the API server's answer is not a Node: %w", err)
		}
		return "", "", err
	}
	if event.Type == "ERROR" {
		return "", "", fmt.Errorf("the API server does not show the Node: %s", event.Object.Message)
	}
	var status struct {
		NodeInfo struct {
			KubeletVersion          string `json:"kubeletVersion"`
			ContainerRuntimeVersion string `json:"containerRuntimeVersion"`
		} `json:"nodeInfo"`
	}
	if len(event.Object.Status) > 0 {
		if err := json.Unmarshal(event.Object.Status, &status); err != nil {
			return "", "", fmt.Errorf("the API server's answer is not a Node: %w", err)
		}
	}
	return status.NodeInfo.KubeletVersion, status.NodeInfo.ContainerRuntimeVersion, nil
}
