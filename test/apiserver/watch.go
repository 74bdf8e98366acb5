package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// selector returns whether a request selects an object, by its namespace, fields and labels.
func (h *handler) selector(r *http.Request) (func(object) bool, error) {
	byField, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byLabel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	namespace := r.PathValue("namespace")
	return func(o object) bool {
		set := fields.Set{}
		if h.resource.Fields != nil {
			set = h.resource.Fields(o)
		}
		set[metav1.ObjectNameField], set["metadata.namespace"] = o.GetName(), o.GetNamespace()
		return (namespace == "" || namespace == o.GetNamespace()) && byField.Matches(set) && byLabel.Matches(labels.Set(o.GetLabels()))
	}, nil
}

// list answers with the objects, or watches them.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	selected, err := h.selector(r)
	if err != nil {
		answer(w, r, 0, nil, err)
		return
	}
	if watches(r) {
		h.watch(w, r, selected)
		return
	}
	all, version := h.selected(selected)
	items := []any{}
	for _, o := range all {
		items = append(items, shown(r, o))
	}
	kind, apiVersion := h.resource.Kind+"List", h.resource.GroupVersion.String()
	if metadataOnly(r) {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	answer(w, r, http.StatusOK, map[string]any{
		"kind": kind, "apiVersion": apiVersion, "items": items, "metadata": map[string]any{"resourceVersion": strconv.Itoa(version)},
	}, nil)
}

// watches reports whether a request is a watch.
func watches(r *http.Request) bool {
	watching, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && watching
}

// selected returns the selected objects, sorted by namespace and name.
func (h *handler) selected(selected func(object) bool) ([]object, int) {
	all, version := h.store.list(h.resource)
	return slices.DeleteFunc(all, func(o object) bool { return !selected(o) }), version
}

func (h *handler) watch(w http.ResponseWriter, r *http.Request, selected func(object) bool) {
	query := r.URL.Query()
	ctx := r.Context()
	if seconds := number(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stream := &stream{writer: w, request: r, encoder: json.NewEncoder(w)}
	from := number(query.Get("resourceVersion"))
	// Without a version, and for a list that is streamed, what there is comes first.
	if initial, _ := strconv.ParseBool(query.Get("sendInitialEvents")); initial || from == 0 {
		var all []object
		all, from = h.selected(selected)
		for _, o := range all {
			stream.send(watch.Added, o)
		}
		if initial {
			stream.send(watch.Bookmark, h.bookmark(from))
		}
	}
	stream.flush()
	for {
		changes, changed := h.store.since(from)
		for _, c := range changes {
			from++
			if c.resource == h.resource.Name {
				stream.change(c, selected)
			}
		}
		stream.flush()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// bookmark ends the objects that there are at the start of a watch.
func (h *handler) bookmark(version int) object {
	empty, err := scheme.Scheme.New(h.resource.kind())
	if err != nil {
		return nil
	}
	o, err := h.typed(empty)
	if err != nil {
		return nil
	}
	o.SetResourceVersion(strconv.Itoa(version))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o
}

// stream is the answer to a watch.
type stream struct {
	writer  http.ResponseWriter
	request *http.Request
	encoder *json.Encoder
}

// change sends a change as those see it who see the selected objects only.
func (s *stream) change(c change, selected func(object) bool) {
	before, after := c.before != nil && selected(c.before), c.kind != watch.Deleted && selected(c.after)
	switch {
	case before && after:
		s.send(watch.Modified, c.after)
	case before:
		s.send(watch.Deleted, c.after)
	case after:
		s.send(watch.Added, c.after)
	}
}

func (s *stream) send(kind watch.EventType, o object) {
	_ = s.encoder.Encode(map[string]any{"type": kind, "object": shown(s.request, o)}) // the client may have gone
}

func (s *stream) flush() {
	if f, ok := s.writer.(http.Flusher); ok {
		f.Flush()
	}
}

// metadataOnly reports whether a client wants the metadata of objects only.
func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// shown is an object as the client wants it.
func shown(r *http.Request, o any) any {
	whole, ok := o.(object)
	if !ok || !metadataOnly(r) {
		return o
	}
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	partial.Name, partial.Namespace, partial.UID = whole.GetName(), whole.GetNamespace(), whole.GetUID()
	partial.Labels, partial.Annotations = whole.GetLabels(), whole.GetAnnotations()
	partial.ResourceVersion = whole.GetResourceVersion()
	return partial
}
