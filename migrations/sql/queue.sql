-- The queue: tables and the functions that are its only writers. Run as one file by the revision that changes it.
--
-- One mutability per table: `job` and `later` are inserted and deleted, never updated; `signal` is appended and
-- consumed; `lane` is the one narrow row that changes; `done` is inserted only. A lane can be rebuilt from `job`.
-- All functions are volatile and run at READ COMMITTED, so every statement in them has a snapshot of its own:
-- the rule "lock first, look afterwards" rests on that. Statistics of tables like these are always wrong, so the
-- planner's choices are pinned by each function's settings. `state + 0` is a look-up by lane that must not be
-- turned into a scan of the partial index of that state.
create schema queue;
create sequence queue.job_id;
create sequence queue.place;

-- `pool` is text, not a number: names such as `send/discord` come from configuration, and an index entry of
-- ten bytes more did not show in claims.
create table queue.job (
  id bigint primary key default nextval('queue.job_id'),      -- for ever, also after a move from `later`
  place bigint not null default nextval('queue.place'),       -- order in the lane, given on entry to `job`
  lane text not null,
  pool text not null,
  community_id bigint not null default 0,
  kind text not null,
  head_start real not null default 0,
  due_at timestamptz not null default voidbot.now(),
  attempt integer not null default 0,                         -- spent before this row was written
  snoozed integer not null default 0,
  max_attempts integer not null default 5,
  yields boolean not null default false,
  key text,
  scope smallint not null default 0,                          -- of `key`: 1 pending, 2 live, 3 for ever, 0 no key
  room_id bigint,
  person_id bigint,
  trace text not null default '',
  payload jsonb not null default '{}',
  created_at timestamptz not null default voidbot.now(),
  check ((key is null) = (scope = 0)));
create index job_head on queue.job (lane, place);

create table queue.later (like queue.job including defaults including constraints, primary key (id));
create index later_due on queue.later (due_at);
alter table queue.later alter column place drop not null, alter column place drop default;

create table queue.signal (id bigint generated always as identity primary key, lane text not null);

create table queue.lane (                                     -- the row is the key's mutex and its lease
  lane text primary key,
  pool text not null,
  community_id bigint not null,
  state smallint not null,                                    -- 1 ready, 2 running, 3 waiting
  rank float8 not null,
  wake_at timestamptz,
  job_id bigint,                                              -- the head, pinned at its first claim
  attempt integer not null default 0,
  snoozed integer not null default 0,
  worker uuid,
  granted_at timestamptz,
  cancel boolean not null default false) with (fillfactor = 60);
create index lane_ready on queue.lane (pool, community_id, rank) where state = 1;
create index lane_running on queue.lane (worker, pool, community_id) where state = 2;
create index lane_waiting on queue.lane (wake_at) where state = 3;
alter table queue.lane set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0);
alter table queue.signal set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1);

create table queue.worker (
  id uuid primary key default gen_random_uuid(),
  beat_at timestamptz not null default voidbot.now(),
  info jsonb not null);

create table queue.key (
  key text primary key,
  scope smallint not null,
  job_id bigint not null,
  created_at timestamptz not null default voidbot.now());

create table queue.done (
  id bigint not null, lane text not null, pool text not null, community_id bigint not null, kind text not null,
  outcome text not null, attempt integer not null, error text, room_id bigint, person_id bigint,
  trace text not null, created_at timestamptz not null, due_at timestamptz not null, granted_at timestamptz,
  finished_at timestamptz not null default voidbot.now()) partition by range (finished_at);
create index done_id on queue.done (id);
create index done_finished on queue.done using brin (finished_at);
create table queue.done_rest partition of queue.done default;

create table queue.dead (like queue.job including constraints, error text not null,
  died_at timestamptz not null default voidbot.now(), primary key (id));
create index dead_died on queue.dead (died_at);

-- Partitions of `done`, one a UTC day. Returns how many were made.
create function queue.add_partitions(days integer) returns integer language plpgsql as $$
declare
  first date := (voidbot.now() at time zone 'UTC')::date;
  made integer := 0;
  part text;
begin
  for n in 0 .. days loop
    part := 'done_' || to_char(first + n, 'YYYYMMDD');
    continue when to_regclass('queue.' || part) is not null;
    -- A day whose rows already went to the rest stays there; the alert on `done_rest` tells the operator.
    continue when exists (select from queue.done_rest where finished_at >= (first + n)::timestamp at time zone 'UTC'
      and finished_at < (first + n + 1)::timestamp at time zone 'UTC');
    execute format('create table queue.%I partition of queue.done for values from (%L) to (%L)', part,
      (first + n)::timestamp at time zone 'UTC', (first + n + 1)::timestamp at time zone 'UTC');
    made := made + 1;
  end loop;
  return made;
end $$;

-- Retention: whole days of `done`, then dead jobs and keys kept for ever, which means 400 days.
create function queue.expire(done_days integer, dead_days integer, key_days integer)
returns table (partitions integer, dead integer, keys integer) language plpgsql as $$
declare
  part text;
begin
  partitions := 0;
  for part in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'queue.done'::regclass and c.relname ~ '^done_\d{8}$'
        and to_date(right(c.relname, 8), 'YYYYMMDD') < (voidbot.now() at time zone 'UTC')::date - done_days loop
    execute format('drop table queue.%I', part);
    partitions := partitions + 1;
  end loop;
  delete from queue.done_rest where finished_at < voidbot.now() - make_interval(days => done_days);
  delete from queue.dead d where d.died_at < voidbot.now() - make_interval(days => dead_days);
  get diagnostics dead = row_count;
  delete from queue.key k where k.scope = 3 and k.created_at < voidbot.now() - make_interval(days => key_days);
  get diagnostics keys = row_count;
  return next;
end $$;

-- One row of what `enqueue` is given.
create type queue.new_job as (
  lane text, pool text, community_id bigint, kind text, head_start real, due_in float8, max_attempts integer,
  yields boolean, key text, scope smallint, room_id bigint, person_id bigint, trace text, payload jsonb);

-- In the caller's transaction: inserts only, touches no lane. Returns the ids of what was taken, by position.
create function queue.enqueue(rows jsonb) returns table (nth integer, id bigint) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  fresh bigint[];
  open integer[];                                             -- positions whose key is not decided yet
  dropped integer[] := '{}';
  lost text[];
  leant text[];
begin
  if not rows @? '$[*] ? (@.key != null || @.due_in > 0)' then
    -- Nearly always: no key to ask for, nothing to wait for. Ids ascend in the order of the rows.
    return query
    with ready as (
      insert into queue.job (lane, pool, community_id, kind, head_start, max_attempts, yields, room_id, person_id,
          trace, payload)
        select lane, pool, community_id, kind, head_start, max_attempts, yields, room_id, person_id, trace, payload
          from jsonb_populate_recordset(null::queue.new_job, rows) returning id, lane
    ), signals as (
      insert into queue.signal (lane) select distinct lane from ready
    )
    select row_number() over (order by id)::integer, id from ready;
    return;
  end if;
  select array_agg(nextval('queue.job_id')) into fresh from generate_series(1, jsonb_array_length(rows));
  select array_agg(r.ordinality) into open
    from jsonb_populate_recordset(null::queue.new_job, rows) with ordinality r where r.key is not null;
  while open is not null loop
    with asked as (
      select r.key, r.scope, r.ordinality as n from jsonb_populate_recordset(null::queue.new_job, rows)
        with ordinality r where r.ordinality = any(open)
    ), won as (
      -- Sorted, or two transactions that take two keys in opposite order deadlock (pitfall 19).
      insert into queue.key (key, scope, job_id) select key, scope, fresh[n] from asked order by key, n
        on conflict do nothing returning job_id
    )
    select array_agg(n), array_agg(distinct key) into open, lost from asked
      where fresh[n] not in (select job_id from won);
    exit when open is null;
    -- A job that is pending will see what this transaction writes only if it is not granted before we commit.
    -- So we lean on its key; a claim passes over jobs whose key somebody leans on. A key that has gone in
    -- between is asked for again.
    leant := array(select k.key from queue.key k where k.key = any(lost) and k.scope = 1
      order by k.key for key share);
    leant := leant || array(select k.key from queue.key k where k.key = any(lost) and k.scope <> 1);
    with undecided as (
      select r.ordinality::integer as n, r.key = any(leant) as taken
        from jsonb_populate_recordset(null::queue.new_job, rows) with ordinality r where r.ordinality = any(open)
    )
    select dropped || coalesce(array_agg(n) filter (where taken), '{}'), array_agg(n) filter (where not taken)
      into dropped, open from undecided;
  end loop;
  return query
  with mine as materialized (
    select r.*, r.ordinality::integer as n, voidbot.now() + make_interval(secs => r.due_in) as due_at
      from jsonb_populate_recordset(null::queue.new_job, rows) with ordinality r
      where r.ordinality <> all(dropped)
  ), ready as (
    insert into queue.job (id, lane, pool, community_id, kind, head_start, due_at, max_attempts, yields, key, scope,
        room_id, person_id, trace, payload)
      select fresh[n], lane, pool, community_id, kind, head_start, due_at, max_attempts, yields, key, scope,
        room_id, person_id, trace, payload from mine where due_in <= 0 order by n returning lane
  ), signals as (
    insert into queue.signal (lane) select distinct lane from ready
  ), delayed as (
    insert into queue.later (id, lane, pool, community_id, kind, head_start, due_at, max_attempts, yields, key,
        scope, room_id, person_id, trace, payload)
      select fresh[n], lane, pool, community_id, kind, head_start, due_at, max_attempts, yields, key, scope,
        room_id, person_id, trace, payload from mine where due_in > 0 order by n
  )
  select n, fresh[n] from mine order by n;
end $$;

-- Lanes whose head has gone, locked by the caller: the next head becomes ready, an empty lane is deleted.
-- One statement decides which are empty; a job committed after it has a signal that nobody could consume,
-- because the lane is locked.
create function queue.next_head(lanes text[]) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  empty text[] := array(select n.lane from unnest(lanes) n(lane)
    where not exists (select from queue.job j where j.lane = n.lane));
begin
  -- step next_head.decided
  delete from queue.lane where lane = any(empty);
  if cardinality(empty) = cardinality(lanes) then
    return;
  end if;
  update queue.lane l set state = 1, pool = head.pool, community_id = head.community_id, rank = head.rank,
      wake_at = null, job_id = null, attempt = 0, snoozed = 0, worker = null, granted_at = null, cancel = false
    from (
      select n.lane, j.pool, j.community_id, extract(epoch from j.due_at) - j.head_start as rank
        from unnest(lanes) n(lane) cross join lateral (
          select * from queue.job j where j.lane = n.lane order by j.place limit 1) j
        where n.lane <> all(empty)) head
    where l.lane = head.lane;
end $$;

-- Committed signals become ready lanes.
create function queue.promote() returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  named text[];
  alive text[];
  busy text[];
begin
  if (select id from queue.signal order by id desc limit 1) is null then
    return;
  end if;
  -- The oldest, so that none starves, and the newest, so that a fresh question does not wait behind an import.
  with gone as (
    delete from queue.signal where id = any(array(
        select id from (select id from queue.signal order by id limit 300 for update skip locked) low
        union select id from (select id from queue.signal order by id desc limit 300 for update skip locked) high))
      returning lane
  )
  select array_agg(distinct lane) into named from gone;
  if named is null then
    return;
  end if;
  -- step promote.consumed
  -- Living lanes are share-locked until commit: their completer either waits for us and then sees the job, or was
  -- first, and then we give the signal back (pitfall 2).
  alive := array(select lane from queue.lane where lane = any(named) order by lane for share skip locked);
  busy := array(select lane from queue.lane where lane = any(named) and lane <> all(alive));
  if cardinality(busy) > 0 then
    insert into queue.signal (lane) select unnest(busy);
  end if;
  insert into queue.lane (lane, pool, community_id, state, rank)
    select n.lane, j.pool, j.community_id, 1, extract(epoch from j.due_at) - j.head_start
      from unnest(named) n(lane) cross join lateral (
        select * from queue.job j where j.lane = n.lane order by j.place limit 1) j
      where n.lane <> all(alive) and n.lane <> all(busy) order by n.lane
    on conflict do nothing;
end $$;

-- The ready lanes that come next, best first and more than `slots` of them, because some may be locked. Fair: each
-- running or chosen job of a community costs it `penalty` seconds of rank.
create function queue.rank_lanes(of_pool text, slots integer, penalty float8) returns text[] language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  low bigint;
  high bigint;
  start bigint;
  communities bigint[];
  few integer;
begin
  low := (select community_id from queue.lane where state = 1 and pool = of_pool order by community_id limit 1);
  high := (select community_id from queue.lane where state = 1 and pool = of_pool order by community_id desc limit 1);
  start := low + floor(random() * (high - low + 1));
  -- A loose index scan: one probe a community, from a random start and around, so that the cap of 64 starves none.
  with recursive up(c, k) as (
    select (select community_id from queue.lane where state = 1 and pool = of_pool and community_id >= start
            order by community_id limit 1), 1
    union all
    select (select community_id from queue.lane where state = 1 and pool = of_pool and community_id > up.c
            order by community_id limit 1), k + 1 from up where c is not null and k < 64
  ), round(c, k) as (
    select (select community_id from queue.lane where state = 1 and pool = of_pool and community_id < start
            order by community_id limit 1), 1
    union all
    select (select community_id from queue.lane where state = 1 and pool = of_pool and community_id > round.c
              and community_id < start
            order by community_id limit 1), k + 1 from round where c is not null and k < 64
  )
  select array_agg(c) into communities from (
    select c from (select c, 1 as half, k from up union all select c, 2, k from round) both_halves
      where c is not null order by half, k limit 64) chosen;
  few := 2 + 4 * slots / cardinality(communities);
  return array(
    with running as materialized (
      select l.community_id as c, count(*) as jobs from queue.lane l where l.state = 2 and l.pool = of_pool group by 1
    ), first as materialized (
      -- A few of each community; one whose last still is among the best is asked for more.
      select u.c, z.lane, z.rank + penalty * (coalesce(r.jobs, 0) + z.nth - 1) as score, z.nth
        from unnest(communities) u(c) left join running r on r.c = u.c cross join lateral (
          select l.lane, l.rank, row_number() over (order by l.rank) as nth from queue.lane l
            where l.state = 1 and l.pool = of_pool and l.community_id = u.c order by l.rank limit few) z
    ), more as (
      select z.lane, z.rank + penalty * (coalesce((select jobs from running r where r.c = u.c), 0) + z.nth - 1) as score
        from (select c from first where nth = few and score <= coalesce(
            (select score from first order by score offset slots - 1 limit 1), 'infinity')) u cross join lateral (
          select l.lane, l.rank, row_number() over (order by l.rank) as nth from queue.lane l
            where l.state = 1 and l.pool = of_pool and l.community_id = u.c
            order by l.rank limit greatest(slots - few, 0) offset few) z
    )
    select lane from (select lane, score from first union all select lane, score from more) candidates
      order by score, lane limit 4 * slots);
end $$;

-- Locks up to `slots` ready lanes.
create function queue.pick(of_pool text, slots integer, penalty float8) returns text[] language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  wanted text[] := array(select lane from queue.lane where state = 1 and pool = of_pool
    order by community_id limit slots + 1);
begin
  if cardinality(wanted) > slots then                         -- else all are wanted: there is nothing to choose
    wanted := queue.rank_lanes(of_pool, slots, penalty);
  end if;
  return array(
    select w.lane from unnest(wanted) with ordinality w(lane, nth) cross join lateral (
      select 1 from queue.lane l where l.lane = w.lane and l.state + 0 = 1 for update skip locked) locked
    limit slots);
end $$;

-- What a grant tells the worker.
create type queue.granted as (
  job_id bigint, lane text, attempt integer, pool text, community_id bigint, kind text, room_id bigint,
  person_id bigint, trace text, payload jsonb, max_attempts integer, snoozed integer, head_start real,
  created_at timestamptz, due_at timestamptz, granted_at timestamptz);

-- Grants up to `slots` heads of one pool. Never waits for a lane: what is locked is passed over.
create function queue.grant_slots(to_worker uuid, of_pool text, slots integer, penalty float8)
returns setof queue.granted language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  locked text[] := queue.pick(of_pool, slots, penalty);
  heads bigint[];
  keys text[];                                                -- of heads that keep equal jobs out until now
  empty text[];
begin
  if cardinality(locked) = 0 then
    return;
  end if;
  -- step grant.locked
  -- A new statement has a new snapshot: the head is read after the lane is locked (pitfall 1). A pinned head stays
  -- the head, whatever was committed before it since (pitfall 5).
  select array_agg(j.id) filter (where j.id is not null), array_agg(j.key) filter (where j.scope = 1),
      array_agg(l.lane) filter (where j.id is null)
    into heads, keys, empty
    from queue.lane l left join lateral (
      select p.id, p.key, p.scope from queue.job p where p.id = l.job_id
      union all
      (select f.id, f.key, f.scope from queue.job f where f.lane = l.lane and l.job_id is null
        order by f.place limit 1)) j on true
    where l.lane = any(locked);
  if keys is not null then
    delete from queue.key where key = any(array(
      select k.key from queue.key k where k.key = any(keys) and k.job_id = any(heads) and k.scope = 1
        for update skip locked));
    -- A key that could not be locked is leant on by an enqueuer; its job is passed over.
    heads := array(select unnest(heads) except
      select k.job_id from queue.key k where k.key = any(keys) and k.scope = 1);
  end if;
  return query
  update queue.lane l set state = 2, worker = to_worker, granted_at = voidbot.now(), cancel = false, wake_at = null,
      job_id = j.id, attempt = case when l.job_id is null then j.attempt else l.attempt end + 1,
      snoozed = case when l.job_id is null then j.snoozed else l.snoozed end
    from unnest(heads) h(id) join queue.job j on j.id = h.id where l.lane = j.lane
    returning j.id, l.lane, l.attempt, j.pool, j.community_id, j.kind, j.room_id, j.person_id, j.trace, j.payload,
      j.max_attempts, l.snoozed, j.head_start, j.created_at, j.due_at, l.granted_at;
  if empty is not null then
    perform queue.next_head(empty);
  end if;
end $$;

-- Share-locks the incarnation's row, so that it cannot be declared dead while it is granted something.
create function queue.check_worker(id_given uuid) returns void language plpgsql as $$
begin
  perform 1 from queue.worker where id = id_given for key share;
  if not found then
    raise exception 'queue: this incarnation is over' using errcode = 'QW001';
  end if;
end $$;

create function queue.claim(to_worker uuid, of_pool text, slots integer, penalty float8)
returns setof queue.granted language plpgsql as $$
begin
  perform queue.check_worker(to_worker);
  perform queue.promote();
  return query select * from queue.grant_slots(to_worker, of_pool, slots, penalty);
end $$;

create type queue.result as (lane text, job_id bigint, attempt integer, outcome text, delay float8, error text);

-- Settles what this incarnation still holds; a stale result is left out of the answer and changes nothing.
-- Outcomes given: ok, retry, snooze, cancel, discard, dead. Answered: done, cancelled, discarded, dead, waiting.
create function queue.settle(of_worker uuid, results jsonb) returns table (job_id bigint, outcome text)
language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  lanes text[];
  freed text[];
  ids bigint[];
  verdicts text[];
  all_well boolean;
begin
  select array_agg(r.lane), bool_and(r.outcome = 'ok') into lanes, all_well
    from jsonb_populate_recordset(null::queue.result, results) r;
  perform 1 from queue.lane where lane = any(lanes) order by lane for update;
  -- step settle.locked
  if all_well then
    -- Nearly always. A statement that can do every outcome, as below, has to open many more tables.
    with gone as (
      delete from queue.job j using jsonb_populate_recordset(null::queue.result, results) r, queue.lane l
        where l.lane = r.lane and l.job_id = r.job_id and l.attempt = r.attempt and l.worker = of_worker
          and l.state + 0 = 2 and j.id = r.job_id
        returning j.*, l.attempt as tried, l.granted_at
    ), finished as (
      insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, room_id, person_id, trace,
          created_at, due_at, granted_at)
        select id, lane, pool, community_id, kind, 'done', tried, room_id, person_id, trace, created_at, due_at,
          granted_at from gone
    ), keys as (
      delete from queue.key k using gone g where g.scope = 2 and k.key = g.key and k.job_id = g.id
    )
    select array_agg(id), array_agg('done'::text), array_agg(lane) into ids, verdicts, freed from gone;
  else
    with mine as materialized (
      select j.*, l.attempt as tried, l.snoozed as naps, l.granted_at, r.error as why, r.delay,
          r.outcome = 'snooze' as snoozes,
          case when r.outcome = 'ok' then 'done' when r.outcome = 'cancel' then 'cancelled'
            when r.outcome = 'discard' then 'discarded' when r.outcome = 'dead' then 'dead'
            when l.cancel then 'cancelled'
            when r.outcome = 'retry' and l.attempt - l.snoozed >= j.max_attempts then 'dead'
            else 'waiting' end as verdict
        from jsonb_populate_recordset(null::queue.result, results) r
        join queue.lane l on l.lane = r.lane and l.job_id = r.job_id and l.attempt = r.attempt and l.worker = of_worker
          and l.state + 0 = 2
        join queue.job j on j.id = r.job_id
    ), gone as (
      delete from queue.job j using mine m where j.id = m.id and (m.verdict <> 'waiting' or m.yields)
    ), finished as (
      insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, error, room_id, person_id, trace,
          created_at, due_at, granted_at)
        select id, lane, pool, community_id, kind, verdict, tried, why, room_id, person_id, trace, created_at, due_at,
          granted_at from mine where verdict <> 'waiting'
    ), died as (
      insert into queue.dead (id, place, lane, pool, community_id, kind, head_start, due_at, attempt, snoozed,
          max_attempts, yields, key, scope, room_id, person_id, trace, payload, created_at, error)
        select id, place, lane, pool, community_id, kind, head_start, due_at, tried, naps, max_attempts, yields, key,
          scope, room_id, person_id, trace, payload, created_at, coalesce(why, '') from mine where verdict = 'dead'
    ), delayed as (
      insert into queue.later (id, lane, pool, community_id, kind, head_start, due_at, attempt, snoozed, max_attempts,
          yields, key, scope, room_id, person_id, trace, payload, created_at)
        select id, lane, pool, community_id, kind, head_start, voidbot.now() + make_interval(secs => delay), tried,
          naps + snoozes::integer, max_attempts, yields, key, scope, room_id, person_id, trace, payload, created_at
          from mine where verdict = 'waiting' and yields
    ), keys as (
      delete from queue.key k using mine m where k.key = m.key and k.job_id = m.id and k.scope = 2
        and m.verdict <> 'waiting'
    ), stay as (
      -- A strict job keeps its lane, pinned, while it waits; without a delay it is ready at once.
      update queue.lane l set state = case when m.delay > 0 then 3 else 1 end, worker = null, granted_at = null,
          wake_at = case when m.delay > 0 then voidbot.now() + make_interval(secs => m.delay) end,
          snoozed = l.snoozed + m.snoozes::integer
        from mine m where l.lane = m.lane and m.verdict = 'waiting' and not m.yields
    )
    select array_agg(m.id), array_agg(m.verdict), array_agg(m.lane) filter (where m.verdict <> 'waiting' or m.yields)
      into ids, verdicts, freed from mine m;
  end if;
  -- step settle.removed
  if freed is not null then
    perform queue.next_head(freed);
  end if;
  return query select * from unnest(ids, verdicts);
end $$;

-- Settle, then claim for each pool, in one round trip. Rows with `settled` answer results, the others are grants.
create function queue.cycle(of_worker uuid, results jsonb, pools text[], free integer[], penalty float8)
returns table (settled text, granted queue.granted) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  perform queue.check_worker(of_worker);
  if jsonb_array_length(results) > 0 then
    return query select s.outcome, row(s.job_id, null, null, null, null, null, null, null, null, null, null, null,
      null, null, null, null)::queue.granted from queue.settle(of_worker, results) s;
  end if;
  if cardinality(pools) > 0 then
    perform queue.promote();
  end if;
  for n in 1 .. cardinality(pools) loop
    continue when not exists (select from queue.lane where state = 1 and pool = pools[n]);
    return query select null, g::queue.granted from queue.grant_slots(of_worker, pools[n], free[n], penalty) g;
  end loop;
end $$;

-- Registers an incarnation. Its predecessor in the same process is over: it is not waited for.
create function queue.register(about jsonb, predecessor uuid) returns uuid language sql as $$
  delete from queue.worker where id = predecessor;
  insert into queue.worker (info) values (about) returning id;
$$;

-- Cancels one job. Answers: cancelled, requested, unknown (finished, or never there).
create function queue.cancel(wanted bigint) returns text language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  held queue.lane;
  gone queue.job;
begin
  for try in 1 .. 3 loop                                      -- a yielding job may move between the tables
    with taken as (delete from queue.later where id = wanted returning *),
      keys as (delete from queue.key k using taken t where k.key = t.key and k.job_id = t.id and k.scope < 3)
    insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, room_id, person_id, trace,
        created_at, due_at)
      select id, lane, pool, community_id, kind, 'cancelled', attempt, room_id, person_id, trace, created_at, due_at
        from taken;
    if found then
      return 'cancelled';
    end if;
    -- The lane lock first, with the lane made if it is missing, or a claimer grants what we delete (pitfall 11).
    insert into queue.lane as l (lane, pool, community_id, state, rank)
      select lane, pool, community_id, 1, extract(epoch from due_at) - head_start from queue.job where id = wanted
      on conflict (lane) do update set cancel = l.cancel returning * into held;
    continue when not found;
    -- step cancel.locked
    if held.state = 2 and held.job_id = wanted then
      update queue.lane set cancel = true where lane = held.lane;
      return 'requested';
    end if;
    delete from queue.job where id = wanted returning * into gone;
    if found then
      insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, room_id, person_id, trace,
          created_at, due_at)
        values (gone.id, gone.lane, gone.pool, gone.community_id, gone.kind, 'cancelled',
          case when held.job_id = wanted then held.attempt else gone.attempt end, gone.room_id, gone.person_id,
          gone.trace, gone.created_at, gone.due_at);
      delete from queue.key where key = gone.key and job_id = gone.id and scope < 3;
    end if;
    if held.state <> 2 and (held.job_id is null or held.job_id = wanted) then
      perform queue.next_head(array[held.lane]);
    end if;
    if gone.id is not null then
      return 'cancelled';
    end if;
  end loop;
  return 'unknown';
end $$;

-- The three parts of a tick, each a transaction, one ticker at a time (pitfall 18).
create function queue.tick_due(most integer) returns integer language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  moved integer;
begin
  if not pg_try_advisory_xact_lock(hashtext('voidbot.queue.due')) then
    return 0;
  end if;
  with due as (
    delete from queue.later where id = any(array(
        select id from queue.later where due_at <= voidbot.now() order by due_at limit most for update skip locked))
      returning *
  ), entered as (
    insert into queue.job (id, lane, pool, community_id, kind, head_start, due_at, attempt, snoozed, max_attempts,
        yields, key, scope, room_id, person_id, trace, payload, created_at)
      select id, lane, pool, community_id, kind, head_start, due_at, attempt, snoozed, max_attempts, yields, key,
        scope, room_id, person_id, trace, payload, created_at from due order by due_at, id returning lane
  ), signals as (
    insert into queue.signal (lane) select distinct lane from entered
  )
  select count(*) into moved from due;
  return moved;
end $$;

create function queue.tick_waiting(most integer) returns integer language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  moved integer;
begin
  if not pg_try_advisory_xact_lock(hashtext('voidbot.queue.waiting')) then
    return 0;
  end if;
  update queue.lane set state = 1, wake_at = null where state + 0 = 3 and lane = any(array(
    select lane from queue.lane where state = 3 and wake_at <= voidbot.now() order by wake_at limit most
      for update skip locked));
  get diagnostics moved = row_count;
  return moved;
end $$;

-- Ends incarnations not heard of for `dead_after` seconds and takes back every lane without a living holder.
-- A head with attempts left is ready again, still pinned; one that was to be cancelled is cancelled; one whose
-- attempts are used up (pitfall 9) is handed to the ticker, who buries it with the words owed to its asker.
create function queue.tick_lost(ticker uuid, dead_after float8)
returns table (lost bigint, settled text, granted queue.granted) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  held record;
begin
  perform queue.check_worker(ticker);
  if not pg_try_advisory_xact_lock(hashtext('voidbot.queue.lost')) then
    return;
  end if;
  delete from queue.worker where id = any(array(
    select id from queue.worker where beat_at < voidbot.now() - make_interval(secs => dead_after) and id <> ticker
      for update skip locked));
  -- step lost.declared
  for held in
    select l.*, l.attempt - l.snoozed >= j.max_attempts as spent from queue.lane l left join queue.job j on j.id = l.job_id
      where l.state = 2 and not exists (select from queue.worker w where w.id = l.worker)
      order by l.lane for update of l skip locked
  loop
    lost := held.job_id;
    settled := null;
    granted := null;
    if held.cancel then
      select s.outcome into settled from queue.settle(held.worker, jsonb_build_array(jsonb_build_object(
        'lane', held.lane, 'job_id', held.job_id, 'attempt', held.attempt, 'outcome', 'cancel',
        'error', 'worker_lost'))) s;
    elsif held.spent then
      update queue.lane l set worker = ticker where l.lane = held.lane;
      granted := (select row(j.id, held.lane, held.attempt, j.pool, j.community_id, j.kind, j.room_id, j.person_id,
        j.trace, j.payload, j.max_attempts, held.snoozed, j.head_start, j.created_at, j.due_at,
        held.granted_at)::queue.granted from queue.job j where j.id = held.job_id);
    else
      update queue.lane l set state = 1, worker = null, granted_at = null where l.lane = held.lane;
    end if;
    return next;
  end loop;
end $$;

-- Jobs without lane and signal get a signal. One snapshot sees neither only if something is broken: not 0 is a bug.
create function queue.reconcile() returns integer language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  found_lanes integer;
begin
  with recursive lanes(lane) as (
    (select lane from queue.job order by lane, place limit 1)
    union all
    select (select j.lane from queue.job j where j.lane > lanes.lane order by j.lane, j.place limit 1)
      from lanes where lanes.lane is not null
  ), signalled as materialized (select distinct lane from queue.signal),
  orphans as (
    insert into queue.signal (lane) select l.lane from lanes l where l.lane is not null
        and not exists (select from queue.lane x where x.lane = l.lane)
        and l.lane not in (select lane from signalled) returning 1
  )
  select count(*) into found_lanes from orphans;
  return found_lanes;
end $$;

-- A dead job starts anew under its old id. Answers: requeued, key_taken, unknown.
create function queue.requeue(wanted bigint) returns text language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  body queue.dead;
begin
  select * into body from queue.dead where id = wanted for update;
  if not found then
    return 'unknown';
  end if;
  if body.key is not null then
    insert into queue.key (key, scope, job_id) values (body.key, body.scope, body.id) on conflict do nothing;
    perform 1 from queue.key where key = body.key and job_id = body.id;
    if not found then
      return 'key_taken';
    end if;
  end if;
  delete from queue.dead where id = wanted;
  insert into queue.job (id, lane, pool, community_id, kind, head_start, max_attempts, yields, key, scope, room_id,
      person_id, trace, payload, created_at)
    values (body.id, body.lane, body.pool, body.community_id, body.kind, body.head_start, body.max_attempts,
      body.yields, body.key, body.scope, body.room_id, body.person_id, body.trace, body.payload, body.created_at);
  insert into queue.signal (lane) values (body.lane);
  return 'requeued';
end $$;

-- Every job in words. A job that is pending behind another one of its lane is `queued`.
create view queue.jobs as
  select j.id, case when l.job_id = j.id then (array['ready', 'running', 'waiting'])[l.state]
        when l.job_id is null and l.state = 1 and j.place = (select min(f.place) from queue.job f where f.lane = j.lane)
        then 'ready' else 'queued' end as state,
      j.kind, j.lane, j.pool, j.place, j.community_id, j.room_id, j.person_id, j.trace, j.created_at, j.due_at,
      case when l.job_id = j.id then l.attempt else j.attempt end as attempt, j.max_attempts,
      case when l.job_id = j.id then l.wake_at end as next_try, case when l.job_id = j.id then l.worker end as worker,
      case when l.job_id = j.id then l.granted_at end as granted_at, null::timestamptz as finished_at,
      case when l.job_id = j.id and l.cancel then 'cancel asked'
        when l.job_id is not null and l.job_id <> j.id then 'behind job ' || l.job_id end as why
    from queue.job j left join queue.lane l on l.lane = j.lane
  union all
  select id, 'delayed', kind, lane, pool, null, community_id, room_id, person_id, trace, created_at, due_at, attempt,
      max_attempts, due_at, null, null, null, null from queue.later
  union all
  select id, 'dead', kind, lane, pool, place, community_id, room_id, person_id, trace, created_at, due_at, attempt,
      max_attempts, null, null, null, died_at, error from queue.dead
  union all
  select id, outcome, kind, lane, pool, null, community_id, room_id, person_id, trace, created_at, due_at, attempt,
      null, null, null, granted_at, finished_at, error from queue.done where outcome <> 'dead';

-- Figures by pool and kind; times in seconds; shares of the last hour.
create function queue.stats() returns table (
  pool text, kind text, ready bigint, running bigint, waiting bigint, later bigint, dead bigint,
  oldest_wait float8, finished_per_minute float8, failed_per_minute float8,
  wait_p50 float8, wait_p95 float8, run_p50 float8, run_p95 float8) language sql stable as $$
  with live as (
    select j.pool, j.kind, count(*) as jobs, count(*) filter (where l.state = 2) as running,
        count(*) filter (where l.state = 3) as waiting,
        extract(epoch from voidbot.now() - min(j.due_at) filter (where l.state is distinct from 2))::float8 as oldest
      from queue.job j left join queue.lane l on l.lane = j.lane and l.job_id = j.id group by 1, 2
  ), ahead as (select pool, kind, count(*) as jobs from queue.later group by 1, 2),
  buried as (select pool, kind, count(*) as jobs from queue.dead group by 1, 2),
  past as (
    select d.pool, d.kind, count(*) filter (where outcome = 'done') / 60.0 as finished,
        count(*) filter (where outcome in ('dead', 'discarded')) / 60.0 as failed,
        percentile_cont(array[0.5, 0.95]) within group (order by extract(epoch from granted_at - due_at)) as waits,
        percentile_cont(array[0.5, 0.95]) within group (order by extract(epoch from finished_at - granted_at)) as runs
      from queue.done d where finished_at > voidbot.now() - interval '1 hour' and granted_at is not null group by 1, 2
  ), names as (
    select pool, kind from live union select pool, kind from ahead union select pool, kind from buried
    union select pool, kind from past
  )
  select pool, kind, coalesce(live.jobs - live.running - live.waiting, 0), coalesce(live.running, 0),
      coalesce(live.waiting, 0), coalesce(ahead.jobs, 0), coalesce(buried.jobs, 0), coalesce(live.oldest, 0),
      coalesce(past.finished, 0)::float8, coalesce(past.failed, 0)::float8,
      past.waits[1]::float8, past.waits[2]::float8, past.runs[1]::float8, past.runs[2]::float8
    from names left join live using (pool, kind) left join ahead using (pool, kind)
      left join buried using (pool, kind) left join past using (pool, kind)
    order by pool, kind;
$$;

select queue.add_partitions(7);
