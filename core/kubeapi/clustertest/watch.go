package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selected reports whether a list or watch is of the server's Node; ok is false if it
// is of all Nodes, and refused.
func (s *Server) selected(query url.Values) (mine, ok bool) {
	const prefix = "metadata.name="
	selector := query.Get("fieldSelector")
	return selector == prefix+s.name, len(selector) > len(prefix) && selector[:len(prefix)] == prefix
}

func refuseAll(w http.ResponseWriter) {
	fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", fmt.Errorf("only one Node may be listed and watched")))
}

// list answers with the one Node, or with none.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	mine, ok := s.selected(r.URL.Query())
	if !ok {
		refuseAll(w)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	}
	if mine && s.node != nil {
		list.Items = append(list.Items, *s.node)
	}
	answer(w, http.StatusOK, list)
}

// watch speaks the watch protocol: a stream of JSON objects, the kind of event and
// the object.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	mine, ok := s.selected(query)
	if !ok {
		refuseAll(w)
		return
	}
	seconds, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		fail(w, apierrors.NewBadRequest("the watch has no time limit"))
		return
	}
	initial := query.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	if initial && s.old {
		s.mu.Unlock()
		fail(w, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
		return
	}
	s.watching++
	cut := s.cut
	from, gone := -1, false
	if !initial {
		from, gone = s.start(query.Get("resourceVersion"))
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.watching--
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stream := &stream{w: w, out: http.NewResponseController(w)}
	if gone {
		// The real server answers so, too, within the stream.
		err := apierrors.NewResourceExpired("too old resource version")
		err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		stream.send("ERROR", err.ErrStatus)
		return
	}
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	for {
		changes, next, more := s.since(from, mine)
		for _, c := range changes {
			stream.send(c.kind, c.node)
		}
		if initial {
			initial = false
			stream.send("BOOKMARK", endOfInitial(next))
		}
		from = next
		stream.flush()
		select {
		case <-more:
		case <-cut:
			hangUp(w)
			return
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// endOfInitial ends the events of the present state (https://kep.k8s.io/3157).
func endOfInitial(version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}
}

// start is the version that a watch begins after, with the lock held: -1 for one
// that first gets the Node as it is.
func (s *Server) start(version string) (from int, gone bool) {
	if version == "" || version == "0" {
		return -1, false
	}
	from, err := strconv.Atoi(version)
	return from, err != nil || from < s.oldest
}

// since is what happened after a version, the version it leads to, and what tells
// of more.
func (s *Server) since(from int, mine bool) (changes []change, next int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !mine:
	case from < 0 && s.node != nil:
		changes = []change{{s.version, "ADDED", s.node}}
	case from >= 0:
		for _, c := range s.history {
			if c.version > from {
				changes = append(changes, c)
			}
		}
	}
	return changes, s.version, s.changed
}

// stream sends the events of a watch.
type stream struct {
	w   io.Writer
	out *http.ResponseController
}

func (s *stream) send(kind string, object any) {
	_ = json.NewEncoder(s.w).Encode(map[string]any{"type": kind, "object": object}) // the client may have gone
}

func (s *stream) flush() { _ = s.out.Flush() }
