"""The league: public measurements against specplan, measured operators, a peer, data sheets and a rule of thumb."""
