package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	kjson "sigs.k8s.io/json"
)

const (
	// maxBody bounds the body of a request, in bytes. etcd stores objects of at most 1.5 MiB, and an
	// update has two.
	maxBody = 4 << 20
	// reviews bounds the requests that are read and reviewed at once, each with up to 5 times its body in
	// memory, and reviewWait how long another one waits. The API server waits for 5 s by the chart.
	reviews    = 8
	reviewWait = 3 * time.Second
)

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1. A request that it cannot answer gets an
// HTTP error; the failurePolicy of the ValidatingWebhookConfiguration is for these.
func (r *Reviewer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	wait := time.NewTimer(r.wait)
	defer wait.Stop()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-wait.C:
		http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		return
	case <-request.Context().Done():
		return
	}
	review, status, err := r.answer(w, request)
	if err == nil {
		var data []byte
		if data, err = json.Marshal(review); err == nil {
			w.Header().Set("Content-Type", "application/json")
			if _, err := w.Write(data); err != nil {
				r.log.Debug("an answer could not be sent", "error", err)
			}
			return
		}
		status = http.StatusInternalServerError
	}
	if r.logs.Allow() {
		r.log.Warn("a request of the API server was not answered", "error", err)
	}
	http.Error(w, err.Error(), status)
}

// answer returns the answer, or an error with its HTTP status.
func (r *Reviewer) answer(w http.ResponseWriter, request *http.Request) (*admissionv1.AdmissionReview, int, error) {
	if content := request.Header.Get("Content-Type"); !isJSON(content) {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the content type is %q, not application/json", content)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the request: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is no AdmissionReview of %s with a request and its UID", admissionv1.SchemeGroupVersion)
	}
	response, err := r.review(request.Context(), review.Request)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response}, 0, nil
}

func isJSON(content string) bool {
	media, _, err := mime.ParseMediaType(content)
	return err == nil && media == "application/json"
}
