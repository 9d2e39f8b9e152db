package plan_test

import (
	"math"
	"math/big"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestHowManyAddressesThereAre(t *testing.T) {
	for sentence, c := range map[string]struct {
		subnet Subnet
		want   int64
	}{
		"nothing has none": {Subnet{}, 0},
		"several pools are summed up": {
			Subnet{CIDR: prefix("10.0.0.0/24"), Pools: ranges("10.0.0.2-10.0.0.9", "10.0.0.20-10.0.0.20")}, 9,
		},
		"without pools all of the CIDR counts": {Subnet{CIDR: prefix("10.0.0.0/24")}, 256},
		"so have two pools that have more together": {
			Subnet{Pools: ranges("fd00::1-fd00::7fff:ffff:ffff:fffe", "fd00:0:0:1::-fd00:0:0:1::9")}, math.MaxInt64,
		},
		"more than 2^64 do not begin anew": {Subnet{Pools: ranges("fd00::-fd00:0:0:1::")}, math.MaxInt64},
		"what runs backwards has none":     {Subnet{Pools: ranges("10.0.0.9-10.0.0.2")}, 0},
		"nor has what is of two families":  {Subnet{Pools: []Range{{addr("10.0.0.1"), addr("fd00::1")}}}, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, c.want, c.subnet.Addresses(), "addresses")
		})
	}
}

// TestAddressesAreCountedToTheLast holds the count of any subnet against one in numbers of any size.
func TestAddressesAreCountedToTheLast(t *testing.T) {
	number := func(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
	rapid.Check(t, func(t *rapid.T) {
		s := subnets(cidrs().Draw(t, "CIDR")).Draw(t, "subnet").Canonical()
		counted := s.Pools
		if len(counted) == 0 {
			counted = []Range{{s.CIDR.Addr(), LastAddr(s.CIDR)}}
		}
		want := new(big.Int)
		for _, pool := range counted {
			want.Add(want, new(big.Int).Sub(number(pool.End), number(pool.Start)))
			want.Add(want, big.NewInt(1))
		}
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		expect.Equal(t, want.Int64(), s.Addresses(), "addresses of %+v", s)
	})
}

func TestUsageIsNeverMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := ObservedSubnet{Subnet: subnets(cidrs().Draw(t, "CIDR")).Draw(t, "subnet").Canonical()}
		if _, known := s.Usage(); known {
			t.Error("a count that nobody made is known")
		}
		s.Used = new(rapid.Int64Min(0).Draw(t, "used"))
		u, known := s.Usage()
		if !known || u.Used > u.Total || u.Used < 0 || u.Total != s.Addresses() || u.Used != min(*s.Used, u.Total) {
			t.Errorf("%d used of %+v is told as %+v, known %t", *s.Used, s.Subnet, u, known)
		}
	})
}

func TestWhenAddressesAreLow(t *testing.T) {
	const tenth = 0.1
	for sentence, c := range map[string]struct {
		usage Usage
		share float64
		was   bool
		want  bool
	}{
		"just a tenth is free, and that is not less":             {Usage{90, 100}, tenth, false, false},
		"and below half as much again":                           {Usage{86, 100}, tenth, true, true},
		"and not any more at half as much again":                 {Usage{85, 100}, tenth, true, false},
		"and not with one address free":                          {Usage{4, 5}, tenth, false, false},
		"one free address does not end it":                       {Usage{4, 5}, tenth, true, true},
		"a subnet of one address is low when that is in use":     {Usage{1, 1}, tenth, false, true},
		"a subnet without addresses is not: none will ever come": {Usage{0, 0}, tenth, false, false},
		"not even by what was low by another":                    {Usage{5, 5}, 0, true, false},
		"of all, one in use is too many":                         {Usage{1, 5}, 1, false, true},
		"an IPv6 /64 is not for all the ports of a cloud":        {Usage{1 << 20, math.MaxInt64}, tenth, false, false},
		"more than half of it is no small share any longer":      {Usage{21, 100}, 0.8, false, true},
		"what ends it is all that there is, at most":             {Usage{1, 100}, 0.8, true, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, c.want, c.usage.Low(c.share, c.was), "low")
		})
	}
}

// TestLowDoesNotFlap holds that what is low stays so while any share is fallen short of, and at least one address longer,
// and that an empty subnet is never low.
func TestLowDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 100_000).Draw(t, "total")
		u := Usage{rapid.Int64Range(0, total).Draw(t, "used"), total}
		share := float64(rapid.IntRange(0, 100).Draw(t, "percent")) / 100
		if u.Low(share, false) && !u.Low(share, true) {
			t.Errorf("%+v is low, and not if it was", u)
		}
		if freed := (Usage{u.Used - 1, total}); u.Low(share, false) && freed.Used > 0 && !freed.Low(share, true) {
			t.Errorf("%+v is low, and not with one address more", u)
		}
		if empty := (Usage{0, total}); empty.Low(share, true) || empty.Low(share, false) {
			t.Errorf("%+v is low", empty)
		}
	})
}

func TestWhichCountsAreNear(t *testing.T) {
	for sentence, c := range map[string]struct {
		told, counted Usage
		want          bool
	}{
		"less than a twentieth more":               {Usage{5, 253}, Usage{17, 253}, true},
		"just a twentieth":                         {Usage{0, 100}, Usage{5, 100}, false},
		"of a small subnet, each counts":           {Usage{4, 5}, Usage{5, 5}, false},
		"other pools are another count":            {Usage{5, 253}, Usage{5, 254}, false},
		"in an IPv6 /64 all that there will be is": {Usage{0, math.MaxInt64}, Usage{1 << 40, math.MaxInt64}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, c.want, c.told.Near(c.counted), "near")
		})
	}
}
