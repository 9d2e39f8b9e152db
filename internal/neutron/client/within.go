package client

import "context"

type withinKey struct{}

// Within binds a context to one project of one cloud, for calls and for an Inventory's answers. If the credentials
// are for another one by then (see Cloud.Replace), the calls fail and are not sent. So a plan for one project is
// never applied to another.
func Within(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, withinKey{}, identity)
}

// Wanted returns the Identity that a context is Within, if any.
func Wanted(ctx context.Context) (Identity, bool) {
	identity, ok := ctx.Value(withinKey{}).(Identity)
	return identity, ok
}

// Outside returns an error if a context is Within another project than the call's.
func Outside(ctx context.Context, op string, to Identity) error {
	if want, ok := Wanted(ctx); ok && want != to {
		return HeldBack(GateIdentity, op, "the credentials have just been changed and are for "+to.String())
	}
	return nil
}
