package conformance

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// describes checks Describe.
func (c *check) describes(ctx context.Context, s *session) error {
	answer, err := s.describe(ctx, c.timing.Describe, nil)
	if err != nil {
		c.fail(describe, "%s", err)
		return stopError{err}
	}
	c.description = answer
	if err := c.parse(answer); err != nil {
		c.fail(describe, "%s", err)
		return stopError{err}
	}
	c.pass(describe)
	c.sameDescription(ctx, s)
	if again, err := s.describe(ctx, c.timing.Describe, unknown); err != nil {
		c.fail(unknownFields, "with an unknown field %s", err)
	} else if !proto.Equal(answer, again) {
		c.fail(unknownFields, "with an unknown field, Describe returns another answer")
	} else {
		c.pass(unknownFields)
	}
	c.learnNeeds(answer.GetNeeds())
	if text := answer.GetSettingsSchema(); text == "" {
		c.skip("the backend describes no schema of its settings", settingsSchema)
	} else {
		c.judge(settingsSchema, unusable(ctx, text))
	}
	if text := answer.GetParametersSchema(); text == "" {
		c.skip("the backend describes no parameters", parametersSchema)
	} else {
		c.judge(parametersSchema, unusable(ctx, text))
	}
	return nil
}

// unusable returns why a schema cannot be used, or nil.
func unusable(ctx context.Context, text string) error {
	err := schema.Check(ctx, text, []byte("{}"))
	if refuses(err) {
		return nil
	}
	return err
}

// refuses reports whether a check by a schema refused the value.
func refuses(err error) bool {
	var refusal *schema.RefusedError
	return errors.As(err, &refusal)
}

// parse lets the core check a description. An error in a part that has its own rule fails that
// rule, and the part is ignored.
func (c *check) parse(answer *backendv1.DescribeResponse) (err error) {
	if c.parsed, err = supervisor.ParseDescription(answer); err == nil {
		return nil
	}
	rest := proto.CloneOf(answer)
	for _, part := range []struct {
		rule  string
		clear func()
	}{
		{settingsSchema, func() { rest.SettingsSchema = "" }},
		{parametersSchema, func() { rest.ParametersSchema = "" }},
		{needsRule, func() { rest.Needs = nil }},
		{attributesRule, func() { rest.Attributes = nil }},
	} {
		part.clear()
		var next error
		if c.parsed, next = supervisor.ParseDescription(rest); next == nil || next.Error() != err.Error() {
			c.fail(part.rule, "%s", err)
			err = next
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// sameDescription calls Describe and compares the answer with the first one.
func (c *check) sameDescription(ctx context.Context, s *session) {
	again, err := s.describe(ctx, c.timing.Describe, nil)
	switch {
	case err != nil:
		c.fail(describeSame, "%s", err)
	case !proto.Equal(c.description, again):
		c.fail(describeSame, "a later answer differs from the first")
	default:
		c.pass(describeSame)
	}
}

// learnAttributes takes the declarations for the settings in place of those of Describe, and checks them.
func (c *check) learnAttributes(answer *backendv1.ConfigureResponse) {
	if len(answer.GetAttributes()) == 0 {
		return
	}
	var err error
	if c.parsed.Attributes, err = supervisor.ParseAttributes(answer.GetAttributes()); err != nil {
		c.fail(attributesRule, "Configure: %s", err)
	}
}

// learnNeeds adds needs to those known so far, and checks them.
func (c *check) learnNeeds(more *backendv1.Needs) {
	if more == nil {
		c.skip("the backend declares no needs", needsRule)
		return
	}
	needs, err := supervisor.ParseNeeds(more)
	c.judge(needsRule, err)
	c.parsed.Needs = c.parsed.Needs.Join(needs)
}
