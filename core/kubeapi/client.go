package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Client makes the agent's requests to the API server. It is safe for concurrent
// use. Errors are those of client-go; k8s.io/apimachinery/pkg/api/errors recognises those of
// the server.
type Client struct {
	http *http.Client
	set  *kubernetes.Clientset
}

// The bounds on the requests of a Client in a second, and in a burst: those of client-go, 5 and
// 10, are less than a node with 1,024 devices has slices.
const (
	requestRate  = 50
	requestBurst = 100
)

func init() {
	// client-go's scheme lacks the metadata of any object, which NodeMetadata asks for.
	utilruntime.Must(metav1.AddMetaToScheme(scheme.Scheme))
}

// Connect returns a client. It does not contact the server: an error is one of the
// configuration.
func Connect(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "accelmux"
	// Deprecation warnings are for developers, not for the node's log.
	config.WarningHandler = rest.NoWarnings{}
	config.QPS, config.Burst = requestRate, requestBurst
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	set, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &Client{http: client, set: set}, nil
}

// Clientset returns client-go's client for all of the API server's types.
func (c *Client) Clientset() kubernetes.Interface { return c.set }

// Close closes idle connections; those of running calls end with their contexts.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// GetPod returns a Pod.
func (c *Client) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := c.set.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	return pod, brief(err)
}

// CreateEvent creates an Event and returns it as the server stored it.
func (c *Client) CreateEvent(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	created, err := c.set.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	return created, brief(err)
}

// PatchEvent changes an Event by a strategic merge patch, which is what client-go's
// recorder makes, and returns it as the server stored it.
func (c *Client) PatchEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error) {
	patched, err := c.set.CoreV1().Events(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return patched, brief(err)
}

// brief returns the error without the request's address and parameters.
func brief(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
