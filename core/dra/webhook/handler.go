package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// maxUploads bounds the bodies that are received or wait for their reviews, in bytes.
	maxUploads = 32 << 20
	// reviews bounds the requests that are reviewed at once, each with up to 4 times its body in memory
	// beside it, and reviewWait how long another one waits. The API server waits for 5 s by the chart.
	reviews    = 8
	reviewWait = 3 * time.Second
)

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1. A request that it cannot answer gets an
// HTTP error; the failurePolicy of the ValidatingWebhookConfiguration is for these.
func (r *Reviewer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, done, status, err := r.receive(w, request)
	defer done()
	var review *admissionv1.AdmissionReview
	if err == nil {
		wait := time.NewTimer(r.wait)
		defer wait.Stop()
		select {
		case r.places <- struct{}{}:
			review, status, err = r.answer(request.Context(), body)
			<-r.places
		case <-wait.C:
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		case <-request.Context().Done():
			return
		}
	}
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

// receive returns the body, or an error with its HTTP status. The caller calls done when it needs the body
// no more.
func (r *Reviewer) receive(w http.ResponseWriter, request *http.Request) (body []byte, done func(), status int, err error) {
	if content := request.Header.Get("Content-Type"); !isJSON(content) {
		return nil, func() {}, http.StatusUnsupportedMediaType, fmt.Errorf("the content type is %q, not application/json", content)
	}
	body, done, err = r.uploads.receive(w, http.MaxBytesReader(w, request.Body, maxBody))
	large := new(http.MaxBytesError)
	switch {
	case err == nil:
	case errors.As(err, &large):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", large.Limit)
	case errors.Is(err, errCrowded):
		status = http.StatusServiceUnavailable
	default:
		status, err = http.StatusBadRequest, fmt.Errorf("read the request: %w", err)
	}
	return body, done, status, err
}

// answer returns the answer, or an error with its HTTP status.
func (r *Reviewer) answer(ctx context.Context, body []byte) (*admissionv1.AdmissionReview, int, error) {
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is no AdmissionReview of %s with a request and its UID", admissionv1.SchemeGroupVersion)
	}
	response, err := r.review(ctx, review.Request)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response}, 0, nil
}

func isJSON(content string) bool {
	media, _, err := mime.ParseMediaType(content)
	return err == nil && media == "application/json"
}
