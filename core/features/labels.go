package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/config"
)

// Nodes is what labels ask of the API server. core/kubeapi implements it and
// documents it.
type Nodes interface {
	GetNode(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error)
	ApplyNodeLabels(ctx context.Context, name string, uid types.UID, labels map[string]string) error
}

// Labels are those of the agent's own Node, through the API server: by server-side
// apply under a name of our own, so that a label which is no feature any more goes
// away and nobody else's is touched. A feature whose label somebody else has set to
// another value is left to them, and said. One goroutine at a time may use it.
type Labels struct {
	nodes Nodes
	node  string
	// seen is the Node as Current last saw it.
	seen *metav1.PartialObjectMetadata
}

// NewLabels are the labels of the Node of that name.
func NewLabels(nodes Nodes, node string) *Labels { return &Labels{nodes: nodes, node: node} }

// String implements Target.
func (l *Labels) String() string { return "labels of Node " + l.node }

// Interval implements Target: whoever watches the Node calls Publisher.Seen.
func (l *Labels) Interval() time.Duration { return 0 }

// Current implements Target.
func (l *Labels) Current(ctx context.Context) (map[string]string, bool, error) {
	node, err := l.nodes.GetNode(ctx, l.node)
	if err != nil {
		return nil, false, err
	}
	l.seen = node
	values := map[string]string{}
	for name, value := range node.Labels {
		if config.IsFeature(name) {
			values[name] = value
		}
	}
	return values, true, nil
}

// Put implements Target. It follows a Current that found the Node.
func (l *Labels) Put(ctx context.Context, values map[string]string) (map[string]string, []string, error) {
	values = maps.Clone(values)
	// With the UID, so that the server does not make a Node that is gone anew.
	uid := l.seen.UID
	err := l.nodes.ApplyNodeLabels(ctx, l.node, uid, values)
	theirs := conflicts(err)
	if len(theirs) == 0 {
		return values, nil, err
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if value, ok := values[name]; ok {
			problems = append(problems, fmt.Sprintf("the label %s of Node %s is not set to %s: %s; remove the label there, and it becomes %s",
				name, l.node, value, theirs[name], value))
			delete(values, name)
		}
	}
	if len(problems) == 0 {
		return nil, nil, err
	}
	if err := l.nodes.ApplyNodeLabels(ctx, l.node, uid, values); err != nil {
		return nil, nil, err
	}
	for name := range theirs {
		if value, ok := l.seen.Labels[name]; ok {
			values[name] = value
		}
	}
	return values, problems, nil
}

// conflicts are the labels that others have set, with what the server says of it.
func conflicts(err error) map[string]string {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	const labels = ".metadata.labels."
	found := map[string]string{}
	for _, cause := range status.Status().Details.Causes {
		if name, ok := strings.CutPrefix(cause.Field, labels); ok && cause.Type == metav1.CauseTypeFieldManagerConflict {
			found[name] = cause.Message
		}
	}
	return found
}

// Explain implements Target.
func (l *Labels) Explain(err error) string {
	what := "the features cannot be published as labels of Node " + l.node + ": "
	switch {
	case apierrors.IsNotFound(err):
		return what + "the cluster has no such Node: it was deleted, or the name (--node-name) is another"
	case apierrors.IsForbidden(err):
		return what + "the API server forbids it; this agent's account needs the verbs get and patch on nodes: " + err.Error()
	case apierrors.IsUnauthorized(err):
		return what + "the API server does not accept this agent's credentials"
	case errors.Is(err, context.DeadlineExceeded):
		return what + "the API server does not answer"
	}
	return what + err.Error()
}
