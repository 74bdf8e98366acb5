package clustertest

import (
	"encoding/json"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Events are those that were written, in their order.
func (s *Server) Events() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []corev1.Event
	for _, name := range s.order {
		events = append(events, *s.events[name])
	}
	return events
}

// Count is how often something happened that Events have told of with that reason.
func (s *Server) Count(reason string) int {
	count := 0
	for _, e := range s.Events() {
		if e.Reason == reason {
			count += int(e.Count)
		}
	}
	return count
}

// create takes an Event, checked as the real server does.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	event := &corev1.Event{}
	text, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, event) // JSON or protobuf
	}
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	event.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Resource: "events"}
	switch {
	case event.Namespace != r.PathValue("namespace"), event.InvolvedObject.Namespace == "" && event.Namespace != metav1.NamespaceDefault:
		fail(w, apierrors.NewBadRequest("the namespace of the event does not match"))
	case event.Name == "", event.Reason == "", len(event.Message) > 1024:
		fail(w, apierrors.NewBadRequest("the event lacks something, or is too long"))
	case s.events[event.Name] != nil:
		fail(w, apierrors.NewAlreadyExists(resource, event.Name))
	default:
		s.events[event.Name] = event
		s.order = append(s.order, event.Name)
		answer(w, http.StatusCreated, event)
	}
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event := s.events[r.PathValue("name")]
	if event == nil {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, r.PathValue("name")))
		return
	}
	if got := r.Header.Get("Content-Type"); got != string(types.StrategicMergePatchType) {
		fail(w, apierrors.NewBadRequest("a patch of the type "+got))
		return
	}
	// Of what the client's recorder patches, decoding over the object makes the same.
	if err := json.NewDecoder(r.Body).Decode(event); err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	answer(w, http.StatusOK, event)
}
