package apiserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// metadata is that of an object.
type metadata = metav1.Object

// Server is the server, as a handler. Make one with [New].
type Server struct {
	store *store
	mux   *http.ServeMux
	// reads and writes are the requests so far; a watch is neither.
	reads, writes atomic.Int64
}

// New returns a server of the resources, which must be known to client-go's scheme.
func New(resources ...Resource) *Server {
	s := &Server{store: newStore(), mux: http.NewServeMux()}
	for i := range resources {
		r := &resources[i]
		h := &handler{store: s.store, resource: r}
		base := "/apis/" + r.GroupVersion.String()
		if r.GroupVersion.Group == "" {
			base = "/api/" + r.GroupVersion.Version
		}
		collection := base + "/" + r.Name
		if r.Namespaced {
			s.mux.HandleFunc("GET "+collection, h.list)
			collection = base + "/namespaces/{namespace}/" + r.Name
		}
		s.mux.HandleFunc("GET "+collection, h.list)
		s.mux.HandleFunc("POST "+collection, h.create)
		s.mux.HandleFunc("DELETE "+collection, h.removeMany)
		s.mux.HandleFunc("GET "+collection+"/{name}", h.get)
		s.mux.HandleFunc("PUT "+collection+"/{name}", h.update)
		s.mux.HandleFunc("PATCH "+collection+"/{name}", h.patch)
		s.mux.HandleFunc("DELETE "+collection+"/{name}", h.remove)
		if r.HasStatus {
			s.mux.HandleFunc("PUT "+collection+"/{name}/status", h.updateStatus)
		}
	}
	return s
}

// ServeHTTP counts a request, and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case watches(r):
	case r.Method == http.MethodGet:
		s.reads.Add(1)
	default:
		s.writes.Add(1)
	}
	s.mux.ServeHTTP(w, r)
}

// Requests returns how many requests the server has got. A watch is neither a read nor a write; those of
// [Server.Client] do not count.
func (s *Server) Requests() (reads, writes int64) { return s.reads.Load(), s.writes.Load() }

// Objects returns the objects of a resource, sorted by namespace and name, and a channel that is closed when
// anything changes. They must not be changed.
func (s *Server) Objects(r Resource) ([]runtime.Object, <-chan struct{}) {
	_, changed := s.store.since(0) // first, so that no change is missed
	all, _ := s.store.list(&r)
	objects := make([]runtime.Object, len(all))
	for i, o := range all {
		objects[i] = o
	}
	return objects, changed
}

// Client returns a client without a connection, for whoever runs the server. It cannot watch.
func (s *Server) Client() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{Host: "http://direct", QPS: -1, Transport: direct{s.mux}})
}

// direct is a way to a handler without a connection.
type direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	d.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// handler serves one resource.
type handler struct {
	store    *store
	resource *Resource
}

func (h *handler) key(r *http.Request) string {
	return key(r.PathValue("namespace"), r.PathValue("name"))
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	o, err := h.store.get(h.resource, h.key(r))
	answer(w, r, http.StatusOK, o, err)
}

func (h *handler) create(w http.ResponseWriter, r *http.Request) {
	o, err := h.decode(r)
	if err != nil {
		answer(w, r, 0, nil, err)
		return
	}
	o.SetNamespace(r.PathValue("namespace"))
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + rand.String(5))
	}
	if h.resource.HasStatus {
		if o, err = withStatusOf(o, nil); err != nil {
			answer(w, r, 0, nil, err)
			return
		}
	}
	if o, err = h.prepare(o, nil); err == nil {
		o, err = h.store.create(h.resource, o, dryRun(r))
	}
	answer(w, r, http.StatusCreated, o, err)
}

// prepare is Resource.Prepare, which may be nil.
func (h *handler) prepare(o, old object) (object, error) {
	if h.resource.Prepare == nil {
		return o, nil
	}
	var before runtime.Object
	if old != nil {
		before = old
	}
	prepared, err := h.resource.Prepare(o, before)
	if err != nil {
		return nil, err
	}
	return h.typed(prepared)
}

func (h *handler) update(w http.ResponseWriter, r *http.Request) {
	h.replace(w, r, func(o, old object) (object, error) {
		if h.resource.HasStatus {
			return withStatusOf(o, old)
		}
		return o, nil
	})
}

func (h *handler) updateStatus(w http.ResponseWriter, r *http.Request) {
	h.replace(w, r, func(o, old object) (object, error) { return withStatusOf(old, o) })
}

// replace stores what merge makes of the request's object and the stored one.
func (h *handler) replace(w http.ResponseWriter, r *http.Request, merge func(o, old object) (object, error)) {
	o, err := h.decode(r)
	if err == nil {
		o, err = h.store.update(h.resource, h.key(r), func(old object) (object, error) {
			if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
				return nil, apierrors.NewConflict(h.resource.group(), o.GetName(), errors.New("the object has been modified"))
			}
			if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
				return nil, apierrors.NewConflict(h.resource.group(), o.GetName(), errors.New("the object has another UID"))
			}
			merged, err := merge(o, old)
			if err != nil {
				return nil, err
			}
			return h.edited(merged, old)
		}, dryRun(r))
	}
	answer(w, r, http.StatusOK, o, err)
}

// edited is the object with what no client can change.
func (h *handler) edited(o, old object) (object, error) {
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetResourceVersion(old.GetResourceVersion())
	return h.prepare(o, old)
}

// patch takes strategic merge patches, which are those of client-go's event recorder.
func (h *handler) patch(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Content-Type"); got != string(types.StrategicMergePatchType) {
		answer(w, r, 0, nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", h.resource.group(), "", "the stand-in server has no "+got, 0, true))
		return
	}
	text, err := io.ReadAll(r.Body)
	var o object
	if err == nil {
		o, err = h.store.update(h.resource, h.key(r), func(old object) (object, error) {
			before, err := json.Marshal(old)
			if err != nil {
				return nil, err
			}
			after, err := strategicpatch.StrategicMergePatch(before, text, old)
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			patched, err := h.parse(after)
			if err != nil {
				return nil, err
			}
			return h.edited(patched, old)
		}, dryRun(r))
	}
	answer(w, r, http.StatusOK, o, err)
}

func (h *handler) remove(w http.ResponseWriter, r *http.Request) {
	options := &metav1.DeleteOptions{}
	text, err := io.ReadAll(r.Body)
	if err == nil && len(text) > 0 {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, options)
	}
	if err != nil {
		answer(w, r, 0, nil, apierrors.NewBadRequest(err.Error()))
		return
	}
	o, err := h.store.remove(h.resource, h.key(r), func(o object) error {
		if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != o.GetUID() {
			return apierrors.NewConflict(h.resource.group(), o.GetName(), errors.New("the object has another UID"))
		}
		return nil
	}, dryRun(r) || len(options.DryRun) > 0)
	answer(w, r, http.StatusOK, o, err)
}

func (h *handler) removeMany(w http.ResponseWriter, r *http.Request) {
	selected, err := h.selector(r)
	if err != nil {
		answer(w, r, 0, nil, err)
		return
	}
	all, _ := h.store.list(h.resource)
	for _, o := range all {
		if selected(o) {
			// Another client may have deleted it.
			_, _ = h.store.remove(h.resource, keyOf(o), func(object) error { return nil }, dryRun(r))
		}
	}
	answer(w, r, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess}, nil)
}

func dryRun(r *http.Request) bool { return r.URL.Query().Get("dryRun") == metav1.DryRunAll }

func equal(a, b object) bool { return equality.Semantic.DeepEqual(a, b) }

// decode returns the object in a request, as JSON or protobuf.
func (h *handler) decode(r *http.Request) (object, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return h.parse(text)
}

func (h *handler) parse(text []byte) (object, error) {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return h.typed(o)
}

// typed is an object with its kind.
func (h *handler) typed(o runtime.Object) (object, error) {
	typed, ok := o.(object)
	if !ok {
		return nil, apierrors.NewBadRequest("this is no object")
	}
	o.GetObjectKind().SetGroupVersionKind(h.resource.kind())
	return typed, nil
}

// withStatusOf is the object with the status of another one, or with none.
func withStatusOf(o, other object) (object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	if other != nil {
		theirs, err := runtime.DefaultUnstructuredConverter.ToUnstructured(other)
		if err != nil {
			return nil, err
		}
		if status, ok := theirs["status"]; ok {
			content["status"] = status
		}
	}
	merged, err := scheme.Scheme.New(o.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, merged); err != nil {
		return nil, err
	}
	return merged.(object), nil //nolint:forcetypeassert // of the type of o
}

// answer writes an object, or the error as the API has it.
func answer(w http.ResponseWriter, r *http.Request, code int, o any, err error) {
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		body := status.Status()
		body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		code, o = int(body.Code), &body
	} else {
		o = shown(r, o)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client may have gone
}

// number is 0 for what is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
