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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client makes the agent's requests to the API server. It is safe for concurrent
// use. Errors are those of client-go; k8s.io/apimachinery/pkg/api/errors recognises those of
// the server.
//
// It is client-go's REST client of the group core/v1. The typed one of all groups, Clientset, is for
// the libraries of dynamic resource allocation.
type Client struct {
	config *rest.Config
	http   *http.Client
	core   rest.Interface
}

// The bounds on the requests of Clientset in a second, and in a burst: those of client-go, 5 and
// 10, are less than a node with 1,024 devices has slices.
const (
	requestRate  = 50
	requestBurst = 100
)

// Clientset returns a client for all of the API server's types. It does not contact the server.
func (c *Client) Clientset() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = nil, "", nil
	config.QPS, config.Burst = requestRate, requestBurst
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	set, err := kubernetes.NewForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return set, nil
}

// Connect returns a client. It does not contact the server: an error is one of the
// configuration.
func Connect(config *rest.Config) (*Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "accelmux"
	// Deprecation warnings are for developers, not for the node's log.
	config.WarningHandler = rest.NoWarnings{}
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	core, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &Client{config: config, http: client, core: core}, nil
}

// newScheme returns a scheme with Events, Pods, the metadata of any object, and the server's
// own answers.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Event{}, &corev1.Pod{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the API server's types: %w", err)
	}
	return scheme, nil
}

// Close closes idle connections; those of running calls end with their contexts.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// GetPod returns a Pod.
func (c *Client) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := c.core.Get().Namespace(namespace).Resource("pods").Name(name).MaxRetries(0).Do(ctx).Into(pod)
	return pod, brief(err)
}

// CreateEvent creates an Event and returns it as the server stored it.
func (c *Client) CreateEvent(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	created := &corev1.Event{}
	err := c.core.Post().Namespace(event.Namespace).Resource("events").Body(event).MaxRetries(0).Do(ctx).Into(created)
	return created, brief(err)
}

// PatchEvent changes an Event by a strategic merge patch, which is what client-go's
// recorder makes, and returns it as the server stored it.
func (c *Client) PatchEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error) {
	patched := &corev1.Event{}
	err := c.core.Patch(types.StrategicMergePatchType).Namespace(namespace).Resource("events").Name(name).Body(patch).
		MaxRetries(0).Do(ctx).Into(patched)
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
