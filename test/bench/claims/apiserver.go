package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	coreconfig "github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/test/bench/rig"
)

const nodeName = "node-1"

// apiServer is a stand-in API server: one Node, the claims that it is given, and ResourceSlices, which
// it stores as they come. Events are accepted and dropped. A client watches from the objects that there
// are (sendInitialEvents), as those of this release do.
type apiServer struct {
	URL  string
	http *http.Server

	mu sync.Mutex
	// history are all changes of slices; its length is the version.
	history []sliceChange
	slices  map[string]*resourceapi.ResourceSlice
	claims  map[string]*resourceapi.ResourceClaim
	// changed is closed and replaced at each change.
	changed chan struct{}
	// reads and writes are the requests so far; a watch is neither.
	reads, writes int
}

type sliceChange struct {
	Type   string                     `json:"type"`
	Object *resourceapi.ResourceSlice `json:"object"`
}

func startAPIServer() (*apiServer, error) {
	s := &apiServer{slices: map[string]*resourceapi.ResourceSlice{}, claims: map[string]*resourceapi.ResourceClaim{}, changed: make(chan struct{})}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	const slicesPath = "/apis/resource.k8s.io/v1/resourceslices"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", s.watchNode)
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.read(func(*http.Request) (any, error) { return theNode(), nil }))
	mux.HandleFunc("/api/v1/namespaces/{namespace}/events", s.write(func(*http.Request) (any, error) { return event(), nil }))
	mux.HandleFunc("/api/v1/namespaces/{namespace}/events/{name}", s.write(func(*http.Request) (any, error) { return event(), nil }))
	mux.HandleFunc("GET /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}", s.read(s.getClaim))
	mux.HandleFunc("GET "+slicesPath, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			s.watch(w, r)
			return
		}
		s.read(s.list)(w, r)
	})
	mux.HandleFunc("POST "+slicesPath, s.write(s.store))
	mux.HandleFunc("PUT "+slicesPath+"/{name}", s.write(s.store))
	mux.HandleFunc("DELETE "+slicesPath+"/{name}", s.write(s.remove))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: rig.Patience}
	s.URL = "http://" + listener.Addr().String()
	go func() { _ = s.http.Serve(listener) }() // it ends with stop
	return s, nil
}

func (s *apiServer) stop() error { return s.http.Close() }

// directory makes one with a kubeconfig file for the server in it.
func (s *apiServer) directory() (string, error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(kubeconfig(dir), fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", s.URL), 0o600)
}

func kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

func theNode() *corev1.Node {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-of-" + nodeName, ResourceVersion: "1"}}
}

func event() *corev1.Event {
	return &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}
}

// read and write count a request, and answer it.
func (s *apiServer) read(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return s.counted(&s.reads, handle)
}

func (s *apiServer) write(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return s.counted(&s.writes, handle)
}

func (s *apiServer) counted(count *int, handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		*count++
		s.mu.Unlock()
		answer, err := handle(r)
		code := http.StatusOK
		var status *apierrors.StatusError
		switch {
		case errors.As(err, &status):
			code, answer = int(status.ErrStatus.Code), status.ErrStatus
		case err != nil:
			code, answer = http.StatusBadRequest, apierrors.NewBadRequest(err.Error()).ErrStatus
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer) // the client may have gone
	}
}

// counts are the requests so far.
func (s *apiServer) counts() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.writes
}

// putClaim stores a claim.
func (s *apiServer) putClaim(c *resourceapi.ResourceClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c.Namespace+"/"+c.Name] = c
}

func (s *apiServer) getClaim(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[r.PathValue("namespace")+"/"+r.PathValue("name")]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), r.PathValue("name"))
}

// store creates or replaces a slice.
func (s *apiServer) store(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	slice := &resourceapi.ResourceSlice{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, slice); err != nil {
		return nil, err
	}
	slice.TypeMeta = metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slice.Name == "" {
		slice.Name = fmt.Sprintf("%s%05d", slice.GenerateName, len(s.history))
	}
	slice.UID = types.UID("uid-of-" + slice.Name)
	if r.URL.Query().Get("dryRun") != "" {
		return slice, nil
	}
	kind := "MODIFIED"
	if s.slices[slice.Name] == nil {
		kind = "ADDED"
	}
	s.slices[slice.Name] = slice
	s.record(kind, slice)
	return slice, nil
}

func (s *apiServer) remove(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slice := s.slices[r.PathValue("name")]
	if slice == nil {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceslices"), r.PathValue("name"))
	}
	delete(s.slices, slice.Name)
	s.record("DELETED", slice.DeepCopy())
	return metav1.Status{Status: metav1.StatusSuccess}, nil
}

// forget deletes the slices of a driver that has stopped.
func (s *apiServer) forget(driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slice := range s.of(driver) {
		delete(s.slices, slice.Name)
		s.record("DELETED", slice.DeepCopy())
	}
}

// record adds a change, with the lock held.
func (s *apiServer) record(kind string, slice *resourceapi.ResourceSlice) {
	slice.ResourceVersion = strconv.Itoa(len(s.history) + 1)
	s.history = append(s.history, sliceChange{kind, slice})
	close(s.changed)
	s.changed = make(chan struct{})
}

// of returns the slices of a driver, or of all for "", sorted by name, with the lock held.
func (s *apiServer) of(driver string) (all []*resourceapi.ResourceSlice) {
	for _, name := range slices.Sorted(maps.Keys(s.slices)) {
		if slice := s.slices[name]; driver == "" || slice.Spec.Driver == driver {
			all = append(all, slice)
		}
	}
	return all
}

// driverOf is the driver that a request selects.
func driverOf(r *http.Request) (string, error) {
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return "", err
	}
	driver, _ := selector.RequiresExactMatch(resourceapi.ResourceSliceSelectorDriver)
	return driver, nil
}

func (s *apiServer) list(r *http.Request) (any, error) {
	driver, err := driverOf(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &resourceapi.ResourceSliceList{
		TypeMeta: metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSliceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.history))},
	}
	for _, slice := range s.of(driver) {
		list.Items = append(list.Items, *slice)
	}
	return list, nil
}

// bookmark ends the objects that there are at the beginning of a watch (https://kep.k8s.io/3157).
func bookmark(version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
}

// watch sends the slices of a driver, and then their changes.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	driver, err := driverOf(r)
	if err != nil || r.URL.Query().Get("sendInitialEvents") != "true" {
		http.Error(w, "a watch begins with what there is", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	var events []sliceChange
	for _, slice := range s.of(driver) {
		events = append(events, sliceChange{"ADDED", slice})
	}
	next, more := len(s.history), s.changed
	s.mu.Unlock()
	events = append(events, sliceChange{"BOOKMARK", &resourceapi.ResourceSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"}, ObjectMeta: bookmark(next),
	}})
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	for {
		for _, e := range events {
			if e.Type == "BOOKMARK" || driver == "" || e.Object.Spec.Driver == driver {
				_ = out.Encode(e) // the request's context ends if the client has gone
			}
		}
		_ = flush.Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		s.mu.Lock()
		events, next, more = s.history[next:], len(s.history), s.changed
		s.mu.Unlock()
	}
}

// watchNode sends the Node, which never changes, as metadata.
func (s *apiServer) watchNode(w http.ResponseWriter, r *http.Request) {
	kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	_ = out.Encode(map[string]any{"type": "ADDED", "object": &metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: theNode().ObjectMeta}})
	_ = out.Encode(map[string]any{"type": "BOOKMARK", "object": &metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: bookmark(1)}})
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// await waits until a driver has published so many devices of a class, "" for any, in complete slices,
// and returns these.
func (s *apiServer) await(driver string, devices int, class string) ([]*resourceapi.ResourceSlice, error) {
	limit := time.After(rig.Patience)
	for {
		s.mu.Lock()
		all, more := s.of(driver), s.changed
		s.mu.Unlock()
		count := 0
		for _, slice := range all {
			for _, d := range slice.Spec.Devices {
				attribute := d.Attributes[acceleratorClass].StringValue
				if slice.Spec.Pool.ResourceSliceCount == int64(len(all)) && (class == "" || attribute != nil && *attribute == class) {
					count++
				}
			}
		}
		if count == devices && len(all) > 0 {
			return all, nil
		}
		select {
		case <-more:
		case <-limit:
			return nil, fmt.Errorf("the API server has %d devices of driver %s instead of %d after %v", count, driver, devices, rig.Patience)
		}
	}
}

const acceleratorClass = coreconfig.FactsDomain + "/" + coreconfig.FactClass
