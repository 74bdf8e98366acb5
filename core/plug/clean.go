package plug

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// All text of a backend is cleaned in this package, and nowhere after it: what messages and statuses have here, lines of its
// log in pipe.go, and its handshake in connect.go.

// maxText bounds a text for people, in bytes, as the contract has it.
const maxText = 1024

// forPeople has the bounds, in bytes, of the texts that are shown as they are. All other texts are values: one with what
// cannot be printed gets a mark, by which the checks of values refuse it, as they do if it is too long.
var forPeople = map[protoreflect.FullName]int{
	nameOf(&backendv1.ConfigureResponse{}) + ".name":    64,
	nameOf(&backendv1.ConfigureResponse{}) + ".version": 64,
	nameOf(&backendv1.FieldError{}) + ".field":          128,
	nameOf(&backendv1.FieldError{}) + ".message":        512,
	nameOf(&backendv1.Inventory{}) + ".problems":        maxText,
	nameOf(&backendv1.Unread{}) + ".reason":             maxText,
	nameOf(&backendv1.Health{}) + ".message":            maxText,
	nameOf(&backendv1.ReleaseResult{}) + ".message":     maxText,
	nameOf(&backendv1.ResetResult{}) + ".message":       maxText,
}

// isClean reports whether the text of a field stays as it is.
func isClean(content []byte, field protoreflect.FieldDescriptor) bool {
	limit, people := forPeople[field.FullName()]
	return text.IsClean(content) && (!people || len(content) <= limit)
}

func clean(content string, field protoreflect.FieldDescriptor) string {
	limit, people := forPeople[field.FullName()]
	switch {
	case !people:
		return text.Clean(content)
	case len(content) > limit:
		limit -= len("...")
	}
	return text.Printable(content, limit)
}

// appendClean appends a valid message with clean texts. Each takes at most twice as many bytes as before.
func appendClean(to, wire []byte, of protoreflect.MessageDescriptor) []byte {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		size := n + protowire.ConsumeFieldValue(number, kind, wire[n:])
		field := of.Fields().ByNumber(number)
		switch {
		case field == nil || kind != protowire.BytesType:
			to = append(to, wire[:size]...)
		case field.Kind() == protoreflect.StringKind:
			content, _ := protowire.ConsumeBytes(wire[n:])
			to = protowire.AppendString(append(to, wire[:n]...), clean(string(content), field))
		case field.Kind() == protoreflect.MessageKind:
			content, _ := protowire.ConsumeBytes(wire[n:])
			to = protowire.AppendBytes(append(to, wire[:n]...), appendClean(nil, content, field.Message()))
		default:
			to = append(to, wire[:size]...)
		}
		wire = wire[size:]
	}
	return to
}

// cleanStatus returns the error of a call with a clean text, and without details.
func cleanStatus(err error) error {
	answer, ok := status.FromError(err)
	if err == nil || !ok {
		return err // not the backend's
	}
	return status.Error(answer.Code(), text.Printable(answer.Message(), maxText))
}

func cleanUnary(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return cleanStatus(next(ctx, method, request, answer, conn, opts...))
}

// cleanStream is a stream whose errors have clean texts.
type cleanStream struct{ grpc.ClientStream }

// RecvMsg implements [grpc.ClientStream].
func (s cleanStream) RecvMsg(into any) error { return cleanStatus(s.ClientStream.RecvMsg(into)) }
