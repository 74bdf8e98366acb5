package node

import (
	"context"
	"fmt"

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

// until watches until an object is as it should be, and returns it.
func until[O runtime.Object, L runtime.Object](ctx context.Context, from lister[L], which fields.Selector, condition func(O) bool) (O, error) {
	var none O
	events, err := follow(ctx, from, which)
	if err != nil {
		return none, err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case event, ok := <-events.ResultChan():
			if !ok {
				return none, fmt.Errorf("the API server ended the watch of %v", which)
			}
			if object, ok := event.Object.(O); ok && event.Type != watch.Deleted && condition(object) {
				return object, nil
			}
		}
	}
}

// follow watches objects, beginning with those that exist.
func follow[L runtime.Object](ctx context.Context, from lister[L], which fields.Selector) (watch.Interface, error) {
	// Without a resource version a watch begins with an event for each object.
	return from.Watch(ctx, metav1.ListOptions{FieldSelector: which.String()})
}
