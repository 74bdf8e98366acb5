package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/diagram"
)

const (
	// maxQuestion bounds what a question may have, in bytes: 16,384 IDs of 63
	// characters and more.
	maxQuestion = 1 << 20
	// explainTime bounds the search for other sets of devices. Explaining is the only
	// request that may take a CPU core for seconds.
	explainTime = 4 * time.Second
)

// Topologies describes the resources that devices are chosen from. Its methods are called
// concurrently. Their errors are shown to users as they are.
type Topologies interface {
	// Topology is that of a resource, or of all if the name is empty.
	Topology(resource string) ([]diagram.Topology, error)
	// Explain may compute until ctx ends, and a little longer.
	Explain(ctx context.Context, question diagram.Question) (diagram.Choice, error)
	// Slices are what is published for dynamic resource allocation.
	Slices() []*resourceapi.ResourceSlice
}

// topology answers with the devices and links of resources.
func (s *Server) topology(w http.ResponseWriter, r *http.Request) {
	all, err := s.source.Topology(r.URL.Query().Get("resource"))
	if err != nil {
		refuse(w, err)
		return
	}
	s.answer(w, all)
}

// explain answers which units would be chosen. It answers one question at a time.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	var question diagram.Question
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&question); err != nil {
		refuse(w, fmt.Errorf("the question cannot be read: %w", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTime)
	defer cancel()
	select {
	case s.explaining <- struct{}{}:
		defer func() { <-s.explaining }()
	case <-ctx.Done():
		refuse(w, errors.New("the agent is busy with other questions of this kind; ask again"))
		return
	}
	choice, err := s.source.Explain(ctx, question)
	if err != nil {
		refuse(w, err)
		return
	}
	s.answer(w, choice)
}

// refuse answers with an error that is shown to the user.
func refuse(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusUnprocessableEntity)
}

// Topology asks for the devices and links of a resource, or of all if the name is
// empty.
func (c *Client) Topology(ctx context.Context, resource string) ([]diagram.Topology, error) {
	var all []diagram.Topology
	return all, c.get(ctx, "/v1/topology?"+url.Values{"resource": {resource}}.Encode(), &all)
}

// Slices asks for what the node publishes for dynamic resource allocation.
func (c *Client) Slices(ctx context.Context) ([]*resourceapi.ResourceSlice, error) {
	var all []*resourceapi.ResourceSlice
	return all, c.get(ctx, "/v1/slices", &all)
}

// Explain asks which units a container would get.
func (c *Client) Explain(ctx context.Context, question diagram.Question) (diagram.Choice, error) {
	var choice diagram.Choice
	body, err := json.Marshal(question)
	if err != nil {
		return choice, err
	}
	return choice, c.ask(ctx, http.MethodPost, "/v1/topology/explain", body, &choice)
}

// refusal returns the error of an answer other than 200.
func (c *Client) refusal(path string, response *http.Response) error {
	const maxMessage = 64 << 10
	if response.StatusCode == http.StatusUnprocessableEntity {
		message, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
		if err == nil && len(message) > 0 {
			return errors.New(strings.TrimSuffix(string(message), "\n"))
		}
	}
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("the agent on %s does not know %s: it is older than this command", c.path, path)
	}
	return fmt.Errorf("ask the agent on %s: %s answered %s", c.path, path, response.Status)
}
