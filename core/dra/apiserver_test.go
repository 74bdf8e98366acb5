package dra

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/accelmux/accelmux/test/patience"
)

// apiServer is the stand-in of client-go with what it lacks: names of new slices, selection by fields, checks
// without storing, and fields that are dropped as their features are off.
type apiServer struct {
	*fake.Clientset
	mu      sync.Mutex
	names   int
	probes  int    // slices that were checked without storing them
	taints  bool   // whether the server has taints
	binding bool   // whether it has binding conditions
	invalid string // an attribute that it refuses
	denied  error  // it refuses all
	altered string // an attribute that it removes
	writes  int
}

func newAPIServer() *apiServer {
	s := &apiServer{Clientset: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "uid-node"}}), taints: true}
	for _, verb := range []string{"create", "update"} {
		s.PrependReactor(verb, "resourceslices", s.store)
	}
	s.PrependReactor("list", "resourceslices", s.list)
	s.PrependWatchReactor("resourceslices", s.watch)
	return s
}

// set changes what the server has.
func (s *apiServer) set(taints bool, invalid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taints, s.invalid = taints, invalid
}

func (s *apiServer) store(action k8stesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slice := action.(interface{ GetObject() runtime.Object }).GetObject().(*resourceapi.ResourceSlice)
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		if !s.taints {
			d.Taints = nil
		}
		if !s.binding {
			d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = nil, nil, nil
		}
		delete(d.Attributes, resourceapi.QualifiedName(s.altered))
		if _, ok := d.Attributes[resourceapi.QualifiedName(s.invalid)]; ok || len(d.BindingConditions) != len(d.BindingFailureConditions) || len(d.Attributes["probe"].StringValues) > 0 {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceSlice"}, slice.Name, nil)
		}
	}
	s.writes++
	if create, ok := action.(k8stesting.CreateActionImpl); ok {
		if len(create.CreateOptions.DryRun) > 0 {
			s.probes++
			if s.denied != nil {
				return true, nil, s.denied
			}
			return true, slice, nil
		}
		if slice.Name == "" {
			s.names++
			slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, s.names)
		}
	}
	return false, nil, nil
}

// matches reports whether a slice has the fields of a request.
func matches(slice *resourceapi.ResourceSlice, selector fields.Selector) bool {
	set := fields.Set{resourceapi.ResourceSliceSelectorDriver: slice.Spec.Driver}
	if slice.Spec.NodeName != nil {
		set[resourceapi.ResourceSliceSelectorNodeName] = *slice.Spec.NodeName
	}
	return selector == nil || selector.Matches(set)
}

func (s *apiServer) list(action k8stesting.Action) (bool, runtime.Object, error) {
	restrictions := action.(k8stesting.ListAction).GetListRestrictions() //nolint:forcetypeassert // it is one
	all, err := s.Tracker().List(action.GetResource(), resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), "")
	if err != nil {
		return true, nil, err
	}
	slicesOf := all.(*resourceapi.ResourceSliceList) //nolint:forcetypeassert // it is one
	slicesOf.Items = slices.DeleteFunc(slicesOf.Items, func(slice resourceapi.ResourceSlice) bool { return !matches(&slice, restrictions.Fields) })
	return true, slicesOf, nil
}

func (s *apiServer) watch(action k8stesting.Action) (bool, watch.Interface, error) {
	restrictions := action.(k8stesting.WatchAction).GetWatchRestrictions() //nolint:forcetypeassert // it is one
	events, err := s.Tracker().Watch(action.GetResource(), "")
	if err != nil {
		return true, nil, err
	}
	matching := make(chan watch.Event)
	w := watch.NewProxyWatcher(matching)
	go func() { // package watch has a filter, which does not end if its last event is not received
		defer close(matching)
		defer events.Stop()
		for {
			select {
			case <-w.StopChan():
				return
			case e := <-events.ResultChan():
				if slice, ok := e.Object.(*resourceapi.ResourceSlice); ok && !matches(slice, restrictions.Fields) {
					continue
				}
				select {
				case matching <- e:
				case <-w.StopChan():
				}
			}
		}
	}()
	return true, w, nil
}

// published returns the slices, each with its driver and its devices with their taints.
func (s *apiServer) published(t *testing.T) (all []string) {
	t.Helper()
	list, err := s.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, slice := range list.Items {
		text := slice.Spec.Driver + ":"
		for _, d := range slice.Spec.Devices {
			text += " " + d.Name
			for _, taint := range d.Taints {
				text += "(" + taint.Value + ")"
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// until waits until a condition holds; it fails with what describe says.
func until(t *testing.T, holds func() bool, describe func() any) {
	t.Helper()
	deadline := time.After(patience.Long)
	for !holds() {
		select {
		case <-deadline:
			t.Fatal(describe())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// want waits until these slices are published.
func (s *apiServer) want(t *testing.T, what string, slices ...string) {
	t.Helper()
	until(t, func() bool { return cmp.Equal(s.published(t), slices) }, func() any {
		return fmt.Sprintf("%s: published are %q, want %q", what, s.published(t), slices)
	})
}
