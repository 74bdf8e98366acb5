package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// answerLimit is how long the server may take to answer a list, or to begin the answer to a
// watch.
const answerLimit = 15 * time.Second

// NodeMetadata lists and watches the metadata of one Node, for a [cache.Reflector].
// The objects are *metav1.PartialObjectMetadata. Every call has a deadline, for a server that
// does not answer or does not end a watch in time.
func (c *Client) NodeMetadata(name string) *cache.ListWatch {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, answerLimit)
			defer cancel()
			options.FieldSelector = selector
			list, err := c.requestNodes(&options, "PartialObjectMetadataList").Do(ctx).Get()
			return list, brief(err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return c.watchNodes(ctx, options)
		},
	}
}

// errHungUp is returned for a watch that ends without an answer.
var errHungUp = errors.New("the API server, or something in between, ended the connection without an answer")

// requestNodes returns a request for objects of that kind instead of whole Nodes. It is not
// tried again: the Reflector has its own backoff.
func (c *Client) requestNodes(options *metav1.ListOptions, kind string) *rest.Request {
	return c.set.CoreV1().RESTClient().Get().Resource("nodes").VersionedParams(options, metav1.ParameterCodec).MaxRetries(0).
		SetHeader("Accept", "application/json;as="+kind+";g=meta.k8s.io;v=v1")
}

func (c *Client) watchNodes(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(answerLimit, cancel)
	options.Watch = true
	events, err := c.requestNodes(&options, "PartialObjectMetadata").Watch(ctx)
	// For a connection that ends without an answer, client-go returns a watch that has
	// already ended.
	if _, ok := events.(*watch.StreamWatcher); err == nil && !ok {
		err = errHungUp
	}
	if err != nil {
		limit.Stop()
		cancel()
		return nil, brief(err)
	}
	lifetime := 10 * time.Minute // the longest that a Reflector asks for
	if options.TimeoutSeconds != nil {
		lifetime = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	limit.Reset(lifetime + answerLimit)
	return &limitedWatch{Interface: events, limit: limit, cancel: cancel}, nil
}

// limitedWatch ends when limit cancels its context.
type limitedWatch struct {
	watch.Interface
	limit  *time.Timer
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.Interface.Stop()
	w.limit.Stop()
	w.cancel()
}

// NodeCondition returns a condition of a Node; nil if it has none of that type.
func (c *Client) NodeCondition(ctx context.Context, name string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error) {
	node, err := c.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, brief(err)
	}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i], nil
		}
	}
	return nil, nil
}

// SetNodeCondition adds a condition to the status of a Node, or replaces the one of its type. It is a strategic
// merge patch: other conditions are left alone.
func (c *Client) SetNodeCondition(ctx context.Context, name string, condition corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err == nil {
		_, err = c.set.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	return brief(err)
}
