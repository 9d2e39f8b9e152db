package client

import "context"

type withinKey struct{}

// Within has the calls that are made with the context, and what an Inventory gives for it, be about one project of one
// cloud. Should the credentials lead elsewhere by then (see Cloud.Replace), they fail and nothing is sent: what was
// planned for one project is never done to another.
func Within(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, withinKey{}, identity)
}

// Wanted is the Identity that a context is Within, if any.
func Wanted(ctx context.Context) (Identity, bool) {
	identity, ok := ctx.Value(withinKey{}).(Identity)
	return identity, ok
}

// Outside gives an error where a context is Within another project than the one that a call would go to.
func Outside(ctx context.Context, op string, to Identity) error {
	if want, ok := Wanted(ctx); ok && want != to {
		return &Error{
			Kind: Transient, Op: op, Unsent: true,
			Reason: "not sent: the credentials have just been changed and lead to " + to.String(),
		}
	}
	return nil
}
