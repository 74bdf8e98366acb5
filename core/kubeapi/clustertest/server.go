package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/accelmux/accelmux/core/kubeapi"
)

// Server is an API server with one Node at most. It ends with the test.
type Server struct {
	name string
	mux  *http.ServeMux
	http *httptest.Server
	dial dialer

	mu sync.Mutex
	// version is that of the last change; history is what led there, and oldest
	// the version that it begins after.
	version, oldest int
	history         []change
	node            *metav1.PartialObjectMetadata // nil: there is none
	conditions      []corev1.NodeCondition        // of the Node
	events          map[string]*corev1.Event
	order           []string
	// pods are by namespace/name.
	pods map[string]*corev1.Pod

	// away hangs up, mute does not answer, old cannot begin a watch with the Node as it
	// is.
	away, mute, old bool
	// forbidden are the verbs that are refused.
	forbidden []string
	// changed is closed and made anew when anything above changes; cut when the
	// running watches have to end.
	changed, cut chan struct{}
	requests     map[string]int
	watching     int
}

// change is one step of the Node's history.
type change struct {
	version int
	kind    string // ADDED, MODIFIED, DELETED
	node    *metav1.PartialObjectMetadata
}

// New starts a server that has a Node of that name, with these labels; nil ones
// for no Node.
func New(t testing.TB, name string, labels map[string]string) *Server {
	return start(t, name, labels, func(handler http.Handler) (*httptest.Server, dialer) {
		return httptest.NewServer(handler), nil
	})
}

func start(t testing.TB, name string, labels map[string]string, serve func(http.Handler) (*httptest.Server, dialer)) *Server {
	t.Helper()
	s := &Server{
		name: name, version: 100, oldest: 100, events: map[string]*corev1.Event{}, pods: map[string]*corev1.Pod{},
		changed: make(chan struct{}), cut: make(chan struct{}), requests: map[string]int{},
	}
	if labels != nil {
		s.SetLabels(labels)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			s.serve("list", s.list)(w, r)
		} else {
			s.serve("watch", s.watch)(w, r)
		}
	})
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.serve("get", s.getNode))
	mux.HandleFunc("PATCH /api/v1/nodes/{name}/status", s.serve("patch status", s.patchStatus))
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", s.serve("get pod", s.getPod))
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/events", s.serve("create", s.create))
	mux.HandleFunc("PATCH /api/v1/namespaces/{namespace}/events/{name}", s.serve("patch", s.patch))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		// An agent looks for slices of drivers that it no longer has.
		if r.Method == http.MethodGet && r.URL.Path == "/apis/resource.k8s.io/v1/resourceslices" {
			http.NotFound(w, r)
			return
		}
		t.Errorf("the API server was asked for %s %s, which nobody needs", r.Method, r.URL)
		http.NotFound(w, r)
	})
	s.mux = mux
	s.http, s.dial = serve(mux)
	t.Cleanup(func() {
		s.Cut()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Client is a client of the server; it ends with the test.
func (s *Server) Client(t testing.TB) *kubeapi.Client {
	t.Helper()
	client, err := kubeapi.Connect(&rest.Config{Host: s.http.URL, Dial: s.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Handle has another handler answer what is asked below a path, while the server answers at all. Cut cuts
// its requests, too.
func (s *Server) Handle(path string, handler http.Handler) {
	s.mux.HandleFunc(path, s.serve(path, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		cut := s.cut
		s.mu.Unlock()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-cut:
				cancel()
			case <-ended:
			}
		}()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// URL is where the server listens.
func (s *Server) URL() string { return s.http.URL }

// SetLabels makes these the Node's labels, or makes the Node.
func (s *Server) SetLabels(labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(labels)
}

// SetAnnotations makes these the Node's annotations, until the next SetLabels. The Node exists.
func (s *Server) SetAnnotations(annotations map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node = s.node.DeepCopy()
	s.node.Annotations = maps.Clone(annotations)
	s.record("MODIFIED")
}

// change changes the Node's labels, with the lock held.
func (s *Server) change(labels map[string]string) {
	kind := "MODIFIED"
	if s.node == nil {
		kind = "ADDED"
	}
	s.node = &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.name, UID: types.UID("uid-of-" + s.name), Labels: maps.Clone(labels),
		},
	}
	s.record(kind)
}

// DeleteNode deletes the Node.
func (s *Server) DeleteNode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("DELETED")
	s.node, s.conditions = nil, nil
}

// record adds a step to the history, with the lock held.
func (s *Server) record(kind string) {
	s.version++
	node := s.node.DeepCopy()
	node.ResourceVersion = strconv.Itoa(s.version)
	s.node = node
	s.history = append(s.history, change{s.version, kind, node})
	s.announce()
}

func (s *Server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Forget drops the history: versions up to now are too old to watch from.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 10
	s.oldest, s.history = s.version, nil
	s.announce()
}

// Cut cuts the connections of all watches.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Away makes the server hang up on every request, watches included, until it is
// called with false.
func (s *Server) Away(away bool) {
	s.mu.Lock()
	s.away = away
	s.mu.Unlock()
	if away {
		s.Cut()
	}
}

// Mute makes the server take requests and not answer, until it is called with false;
// running watches end.
func (s *Server) Mute(mute bool) {
	s.mu.Lock()
	s.mute = mute
	s.mu.Unlock()
	s.Cut()
}

// Old makes the server one before Kubernetes 1.34: a client has to list before it
// watches.
func (s *Server) Old() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = true
}

// Account is who the server takes its client for.
const Account = "system:serviceaccount:accelmux-system:accelmux"

// Forbid makes the server refuse every new request, as if the rights were gone.
// As with the real one, running watches go on.
func (s *Server) Forbid(forbidden bool) {
	if forbidden {
		s.ForbidVerbs("list", "watch", "get", "get pod", "apply", "create", "patch", "patch status")
	} else {
		s.ForbidVerbs()
	}
}

// ForbidVerbs is Forbid for these verbs, and no others.
func (s *Server) ForbidVerbs(verbs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = verbs
}

// Requests counts those of a verb since the start: list and watch for the Node, create and
// patch for Events.
func (s *Server) Requests(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[verb]
}

// Watching is how many watches run.
func (s *Server) Watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watching
}

// serve counts a request and lets it through.
func (s *Server) serve(verb string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests[verb]++
		away, mute, forbidden := s.away, s.mute, slices.Contains(s.forbidden, verb)
		s.mu.Unlock()
		switch {
		case away:
			hangUp(w)
		case mute:
			<-r.Context().Done()
		case forbidden:
			s.refuse(w, r, verb)
		default:
			handle(w, r)
		}
	}
}

// refuse answers that the account has no right, in the words of the real server.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, verb string) {
	resource, name, scope := "nodes", s.name, "at the cluster scope"
	if namespace := r.PathValue("namespace"); namespace != "" {
		resource, name, scope = "events", r.PathValue("name"), fmt.Sprintf("in the namespace %q", namespace)
	}
	switch verb {
	case "get pod":
		verb, resource = "get", "pods"
	case "patch status":
		verb, resource = "patch", "nodes/status"
	}
	why := fmt.Sprintf("User %q cannot %s resource %q in API group \"\" %s", Account, verb, resource, scope)
	fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New(why)))
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(err.ErrStatus.Code), err.ErrStatus)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}
