package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Client makes the agent's requests to the API server. It is safe for concurrent
// use. The errors are those of the server (k8s.io/apimachinery/pkg/api/errors
// tells them apart), or of the connection to it.
type Client struct {
	http *http.Client
	core rest.Interface
}

// Connect makes a client. It does not contact the server: an error is one of the
// configuration.
func Connect(config *rest.Config) (*Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "accelmux"
	// A deprecation is for developers, not for the node's log.
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
	return &Client{http: client, core: core}, nil
}

// newScheme knows Events, the metadata of any object, and the server's own
// answers.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Event{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, fmt.Errorf("prepare the API server's types: %w", err)
	}
	return scheme, nil
}

// Close ends idle connections; those of running calls end with their contexts.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// metadataOnly asks the server for an object's metadata instead of the object.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// WatchNode watches one Node from a resource version on; from "" the first event
// is the Node as it is, if there is one. The events carry
// *metav1.PartialObjectMetadata, those of the type watch.Error a *metav1.Status.
// The server ends the watch after lifetime, which is rounded to seconds; it ends
// with ctx, too.
func (c *Client) WatchNode(ctx context.Context, name, version string, lifetime time.Duration) (watch.Interface, error) {
	seconds := int64(lifetime.Round(time.Second) / time.Second)
	options := &metav1.ListOptions{
		Watch:               true,
		FieldSelector:       fields.OneTermEqualSelector("metadata.name", name).String(),
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	}
	events, err := c.core.Get().Resource("nodes").VersionedParams(options, metav1.ParameterCodec).
		SetHeader("Accept", metadataOnly).MaxRetries(0).Watch(ctx)
	return events, brief(err)
}

// CreateEvent writes a new Event.
func (c *Client) CreateEvent(ctx context.Context, event *corev1.Event) error {
	return brief(c.core.Post().Namespace(event.Namespace).Resource("events").Body(event).MaxRetries(0).Do(ctx).Error())
}

// PatchEvent changes an Event by a JSON merge patch (RFC 7386).
func (c *Client) PatchEvent(ctx context.Context, namespace, name string, patch []byte) error {
	return brief(c.core.Patch(types.MergePatchType).Namespace(namespace).Resource("events").Name(name).Body(patch).MaxRetries(0).Do(ctx).Error())
}

// brief leaves the address with all its parameters out of an error.
func brief(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
