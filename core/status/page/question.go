package page

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// question is what a request asks for.
type question struct {
	// refresh: the page is reloaded.
	refresh bool
	// unhealthy: only unhealthy devices are listed.
	unhealthy bool
	// first is the index of the first listed device.
	first int
	// device is one to show all of, as backend/ID; "" for none.
	device string
	// named: the reader may see the names of pods.
	named bool
}

func ask(r *http.Request) question {
	values := r.URL.Query()
	first, err := strconv.Atoi(values.Get("first"))
	if err != nil {
		first = 0
	}
	return question{
		refresh: values.Has("refresh"), unhealthy: values.Has("unhealthy"), first: max(first, 0),
		device: values.Get("device"), named: mayName(r),
	}
}

// link returns the address of a question, relative to the page, at one of its sections.
func (q question) link(section string) string {
	values := url.Values{}
	if q.refresh {
		values.Set("refresh", "")
	}
	if q.unhealthy {
		values.Set("unhealthy", "")
	}
	if q.first > 0 {
		values.Set("first", strconv.Itoa(q.first))
	}
	if q.device != "" {
		values.Set("device", q.device)
	}
	return "/?" + values.Encode() + "#" + section
}

// mayName reports whether the reader may see the names of pods: the request is of this machine or came by
// `kubectl port-forward`, which both arrive on loopback. What another server passed on is neither, and a page
// of another site that makes its name resolve to 127.0.0.1 is not at localhost.
func mayName(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && isLocal(r.Host)
}

// isLocal reports whether the host of a request, with or without a port, is this machine.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

// namesIn are the names of pods and claims in messages: "pod team/train", "the claims team/a, team/b".
var namesIn = regexp.MustCompile(`\b([Pp]ods?|[Cc]laims?|[Cc]ontainers?) [a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*){1,2}(,? (and )?[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*){1,2})*`)

// message returns a message of the agent as the reader may see it.
func (q question) message(text string) string {
	if q.named {
		return text
	}
	return namesIn.ReplaceAllString(text, "$1 (name hidden)")
}
