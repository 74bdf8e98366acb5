package apiserver

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// store has the objects of all resources, and every change since the server's start. An object in it
// is never changed.
type store struct {
	mu      sync.Mutex
	objects map[string]map[string]object // by resource, then namespace/name
	history []change
	// changed is closed and replaced at each change.
	changed chan struct{}
}

// change is the step to the version that is its index in the history plus 1.
type change struct {
	resource string
	kind     watch.EventType
	// before is nil for an object that was added, after the last state for one that was deleted.
	before, after object
}

func newStore() *store {
	return &store{objects: map[string]map[string]object{}, changed: make(chan struct{})}
}

func (s *store) get(r *Resource, key string) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(r, key)
}

func (s *store) find(r *Resource, key string) (object, error) {
	if o, ok := s.objects[r.Name][key]; ok {
		return o, nil
	}
	return nil, apierrors.NewNotFound(r.group(), key)
}

// list returns the objects of a resource, sorted by key, and the version of the last change of any.
func (s *store) list(r *Resource) (all []object, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.objects[r.Name])) {
		all = append(all, s.objects[r.Name][name])
	}
	return all, len(s.history)
}

// create stores an object, unless it is a dry run.
func (s *store) create(r *Resource, o object, dry bool) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[r.Name][keyOf(o)]; ok {
		return nil, apierrors.NewAlreadyExists(r.group(), keyOf(o))
	}
	if dry {
		return o, nil
	}
	return s.record(r, watch.Added, nil, o), nil
}

// update replaces an object by what edit makes of it. One that is the same is not stored.
func (s *store) update(r *Resource, key string, edit func(old object) (object, error), dry bool) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.find(r, key)
	if err != nil {
		return nil, err
	}
	o, err := edit(old)
	if err != nil || dry || equal(o, old) {
		return o, err
	}
	return s.record(r, watch.Modified, old, o), nil
}

// remove deletes an object, if check returns nil for it.
func (s *store) remove(r *Resource, key string, check func(object) error, dry bool) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.find(r, key)
	if err != nil {
		return nil, err
	}
	if err := check(old); err != nil || dry {
		return old, err
	}
	return s.record(r, watch.Deleted, old, old), nil
}

// record adds a change, with the lock held, and returns the object with its new version.
func (s *store) record(r *Resource, kind watch.EventType, before, o object) object {
	after := o.DeepCopyObject().(object) //nolint:forcetypeassert // a copy is of the same type
	after.SetResourceVersion(strconv.Itoa(len(s.history) + 1))
	s.history = append(s.history, change{r.Name, kind, before, after})
	if kind == watch.Deleted {
		delete(s.objects[r.Name], keyOf(after))
	} else {
		if s.objects[r.Name] == nil {
			s.objects[r.Name] = map[string]object{}
		}
		s.objects[r.Name][keyOf(after)] = after
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return after
}

// since returns the changes after a version, and a channel that is closed at the next one.
func (s *store) since(version int) ([]change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[min(version, len(s.history)):], s.changed
}

func (r *Resource) group() schema.GroupResource {
	return r.GroupVersion.WithResource(r.Name).GroupResource()
}

func (r *Resource) kind() schema.GroupVersionKind {
	return r.GroupVersion.WithKind(r.Kind)
}

// keyOf is namespace/name, or the name of an object that has no namespace.
func keyOf(o object) string { return key(o.GetNamespace(), o.GetName()) }

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// object is an API object with its metadata.
type object interface {
	runtime.Object
	metadata
}
