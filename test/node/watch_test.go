package node

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// lister is what all typed clients have.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// until watches until an object is as it should be, and returns it. The API server ends
// a watch whose client does not keep up: then until watches again. Of one object by its
// name it misses nothing, as it goes on where it was.
func until[O runtime.Object, L runtime.Object](ctx context.Context, from lister[L], which fields.Selector, condition func(O) bool) (O, error) {
	var none O
	version := ""
	_, one := which.RequiresExactMatch("metadata.name")
	for {
		// Without a resource version a watch begins with an event for each object.
		events, err := from.Watch(ctx, metav1.ListOptions{FieldSelector: which.String(), ResourceVersion: version})
		if err != nil {
			return none, err
		}
		object, found, err := next(ctx, events, &version, condition)
		events.Stop()
		if found || err != nil {
			return object, err
		}
		if !one { // those that exist come in any order
			version = ""
		}
	}
}

// next looks for an object in the events of one watch, until that ends. version is that
// of the newest event.
func next[O runtime.Object](ctx context.Context, events watch.Interface, version *string, condition func(O) bool) (object O, found bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return object, false, ctx.Err()
		case event, ok := <-events.ResultChan():
			if !ok {
				return object, false, nil
			}
			if event.Type == watch.Error {
				return object, false, apierrors.FromObject(event.Object)
			}
			object, ok := event.Object.(O)
			if !ok {
				continue
			}
			about, err := meta.Accessor(object)
			if err != nil {
				return object, false, err
			}
			*version = about.GetResourceVersion()
			if event.Type != watch.Deleted && condition(object) {
				return object, true, nil
			}
		}
	}
}
