"""The spine: communities, rooms, people, messages, intake, outbox, receipts, budgets, audit."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create schema if not exists voidbot")
    # The one clock of SQL. Tests replace this function together with the Clock port.
    op.execute("create or replace function voidbot.now() returns timestamptz language sql stable parallel safe as 'select now()'")
    op.create_table('communities',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('chat_ref', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('mind_id', sa.Text(), nullable=False),
    sa.Column('timezone', sa.Text(), server_default=sa.text("'UTC'"), nullable=False),
    sa.Column('language', sa.Text(), server_default=sa.text("'en'"), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'active'"), nullable=False),
    sa.Column('access_state', sa.Text(), server_default=sa.text("'fresh'"), nullable=False),
    sa.Column('access_epoch', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('settings_version', sa.BigInteger(), server_default=sa.text('1'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('communities_pkey')),
    sa.UniqueConstraint('platform', 'chat_ref', name=op.f('communities_platform_chat_ref_key')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('people',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('account_ref', sa.Text(), nullable=False),
    sa.Column('is_bot', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('kind', sa.Text(), server_default=sa.text("'user'"), nullable=False),
    sa.Column('opted_out', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('limits', sa.Text(), server_default=sa.text("'default'"), nullable=False),
    sa.Column('first_seen', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('people_pkey')),
    sa.UniqueConstraint('platform', 'account_ref', name=op.f('people_platform_account_ref_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_table('purses',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('scope_id', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('unit', sa.Text(), nullable=False),
    sa.Column('window_kind', sa.Text(), nullable=False),
    sa.Column('limit_amount', sa.BigInteger(), nullable=False),
    sa.Column('soft', sa.REAL(), server_default=sa.text('0.8'), nullable=False),
    sa.Column('timezone', sa.Text(), server_default=sa.text("'UTC'"), nullable=False),
    sa.Column('set_by', sa.Text(), server_default=sa.text("'default'"), nullable=False),
    sa.Column('set_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('purses_pkey')),
    sa.UniqueConstraint('scope', 'scope_id', 'unit', 'window_kind', name=op.f('purses_scope_scope_id_unit_window_kind_key')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('rates',
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('tat', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('key', name=op.f('rates_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_table('reservations',
    sa.Column('id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('job_id', sa.BigInteger(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('purses', postgresql.ARRAY(sa.BigInteger()), nullable=False),
    sa.Column('subjects', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('windows', postgresql.ARRAY(sa.DateTime(timezone=True)), nullable=False),
    sa.Column('units', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('amounts', postgresql.ARRAY(sa.BigInteger()), nullable=False),
    sa.Column('spent', postgresql.ARRAY(sa.BigInteger()), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'held'"), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('reservations_pkey')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_index('reservations_held_idx', 'reservations', ['expires_at'], unique=False, schema='voidbot', postgresql_where=sa.text("state = 'held'"))
    op.create_index(op.f('reservations_job_id_idx'), 'reservations', ['job_id'], unique=False, schema='voidbot')
    op.create_table('settings',
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('scope_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('value', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'null'"), nullable=False),
    sa.Column('revision', sa.BigInteger(), server_default=sa.text('1'), nullable=False),
    sa.Column('set_by', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('set_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.PrimaryKeyConstraint('scope', 'scope_id', 'name', name=op.f('settings_pkey')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('audit',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=True),
    sa.Column('actor', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('act', sa.Text(), nullable=False),
    sa.Column('place', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('details', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('audit_person_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('audit_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('audit_at_idx'), 'audit', ['at'], unique=False, schema='voidbot')
    op.create_table('memberships',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('joined_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('left_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('memberships_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('memberships_person_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('memberships_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('memberships_open_key', 'memberships', ['community_id', 'person_id'], unique=True, schema='voidbot', postgresql_where=sa.text('left_at is null'))
    op.create_table('person_names',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), server_default=sa.text("'display'"), nullable=False),
    sa.Column('valid_from', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('valid_to', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('person_names_person_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('person_names_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('person_names_open_key', 'person_names', ['person_id', 'kind'], unique=True, schema='voidbot', postgresql_where=sa.text('valid_to is null'))
    op.create_table('purse_windows',
    sa.Column('purse_id', sa.BigInteger(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('starts_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('held', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('spent', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.ForeignKeyConstraint(['purse_id'], ['voidbot.purses.id'], name=op.f('purse_windows_purse_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('purse_id', 'subject', 'starts_at', name=op.f('purse_windows_pkey')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('roles',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('role_ref', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('admin', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('deleted_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('roles_community_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('roles_pkey')),
    sa.UniqueConstraint('community_id', 'role_ref', name=op.f('roles_community_id_role_ref_key')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('rooms',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('chat_ref', sa.Text(), nullable=False),
    sa.Column('topic_ref', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('parent_id', sa.BigInteger(), nullable=True),
    sa.Column('name', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('topic', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('mode', sa.Text(), server_default=sa.text("'mention'"), nullable=False),
    sa.Column('archive', sa.Text(), server_default=sa.text("'inherit'"), nullable=False),
    sa.Column('unattended', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('paused', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('persona', sa.Text(), server_default=sa.text("'plain'"), nullable=False),
    sa.Column('language', sa.Text(), server_default=sa.text("'en'"), nullable=False),
    sa.Column('quiet_from', sa.Time(), nullable=True),
    sa.Column('quiet_to', sa.Time(), nullable=True),
    sa.Column('state', sa.Text(), server_default=sa.text("'active'"), nullable=False),
    sa.Column('last_archived_seq', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('rooms_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['parent_id'], ['voidbot.rooms.id'], name=op.f('rooms_parent_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('rooms_pkey')),
    sa.UniqueConstraint('platform', 'chat_ref', 'topic_ref', name=op.f('rooms_platform_chat_ref_topic_ref_key')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_index(op.f('rooms_community_id_idx'), 'rooms', ['community_id'], unique=False, schema='voidbot')
    op.create_table('console_messages',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('seq', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('nonce', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('reply_to', sa.Text(), nullable=True),
    sa.Column('private_to', sa.Text(), nullable=True),
    sa.Column('outbox_id', sa.BigInteger(), nullable=True),
    sa.Column('revision', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('console_messages_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('console_messages_pkey')),
    sa.UniqueConstraint('nonce', name=op.f('console_messages_nonce_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('console_messages_seq_idx'), 'console_messages', ['seq'], unique=False, schema='voidbot')
    op.create_table('inbox',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('front_end', sa.Text(), nullable=False),
    sa.Column('event_ref', sa.Text(), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('message_ref', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('revision', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('text', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('reply_to', sa.Text(), nullable=True),
    sa.Column('payload', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('sent_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('received_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('trace', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('turn_id', sa.BigInteger(), nullable=True),
    sa.Column('gone', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('blank_after', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('inbox_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('inbox_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('inbox_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('inbox_pkey')),
    sa.UniqueConstraint('front_end', 'event_ref', name=op.f('inbox_front_end_event_ref_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('inbox_blank_after_idx'), 'inbox', ['blank_after'], unique=False, schema='voidbot')
    op.create_index('inbox_message_key', 'inbox', ['front_end', 'room_id', 'message_ref'], unique=True, schema='voidbot', postgresql_where=sa.text("kind in ('text', 'command')"))
    op.create_index(op.f('inbox_turn_id_idx'), 'inbox', ['turn_id'], unique=False, schema='voidbot')
    op.create_table('membership_roles',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('role_id', sa.BigInteger(), nullable=False),
    sa.Column('valid_from', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('valid_to', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('membership_roles_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['role_id'], ['voidbot.roles.id'], name=op.f('membership_roles_role_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('membership_roles_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('membership_roles_open_key', 'membership_roles', ['person_id', 'role_id'], unique=True, schema='voidbot', postgresql_where=sa.text('valid_to is null'))
    op.create_table('messages',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('author_id', sa.BigInteger(), nullable=True),
    sa.Column('platform_ref', sa.Text(), nullable=False),
    sa.Column('sent_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('archived_seq', sa.BigInteger(), nullable=False),
    sa.Column('kind', sa.Text(), server_default=sa.text("'text'"), nullable=False),
    sa.Column('reply_to_ref', sa.Text(), nullable=True),
    sa.Column('text', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('lang', sa.Text(), server_default=sa.text("'en'"), nullable=False),
    sa.Column('origin', sa.Text(), server_default=sa.text("'live'"), nullable=False),
    sa.Column('revision', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('edited_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('deleted_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('delete_reason', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('sources', postgresql.ARRAY(sa.BigInteger()), nullable=True),
    sa.Column('tsv', postgresql.TSVECTOR(), sa.Computed("to_tsvector('english', text)", persisted=True), nullable=True),
    sa.ForeignKeyConstraint(['author_id'], ['voidbot.people.id'], name=op.f('messages_author_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('messages_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('messages_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('messages_pkey')),
    sa.UniqueConstraint('room_id', 'platform_ref', name=op.f('messages_room_id_platform_ref_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('messages_author_id_idx'), 'messages', ['author_id'], unique=False, schema='voidbot')
    op.create_index(op.f('messages_room_id_archived_seq_idx'), 'messages', ['room_id', 'archived_seq'], unique=True, schema='voidbot')
    op.create_index(op.f('messages_room_id_sent_at_id_idx'), 'messages', ['room_id', 'sent_at', 'id'], unique=False, schema='voidbot')
    op.create_index('messages_tsv_idx', 'messages', ['tsv'], unique=False, schema='voidbot', postgresql_using='gin', postgresql_with={'fastupdate': 'off'})
    op.create_table('outbox',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('front_end', sa.Text(), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('reply_to', sa.Text(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('body', sa.Text(), nullable=True),
    sa.Column('audience', postgresql.ARRAY(sa.BigInteger()), nullable=False),
    sa.Column('dedupe', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'ready'"), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('private_to', sa.BigInteger(), nullable=True),
    sa.Column('job_id', sa.BigInteger(), nullable=True),
    sa.Column('trace', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('asked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('outbox_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['private_to'], ['voidbot.people.id'], name=op.f('outbox_private_to_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('outbox_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('outbox_pkey')),
    sa.UniqueConstraint('dedupe', name=op.f('outbox_dedupe_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('outbox_open_idx', 'outbox', ['state', 'id'], unique=False, schema='voidbot', postgresql_where=sa.text("state in ('ready', 'sending', 'unknown', 'failed')"))
    op.create_table('room_access',
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('known', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('everyone_view', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('everyone_history', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('version', sa.BigInteger(), server_default=sa.text('1'), nullable=False),
    sa.Column('checked_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('source', sa.Text(), server_default=sa.text("'platform'"), nullable=False),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('room_access_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('room_id', name=op.f('room_access_pkey')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('room_access_roles',
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('role_id', sa.BigInteger(), nullable=False),
    sa.Column('view', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('history', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.ForeignKeyConstraint(['role_id'], ['voidbot.roles.id'], name=op.f('room_access_roles_role_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('room_access_roles_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('room_id', 'role_id', name=op.f('room_access_roles_pkey')),
    schema='voidbot',
    info={'person': False}
    )
    op.create_table('room_access_users',
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('view', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('history', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('room_access_users_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('room_access_users_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('room_id', 'person_id', name=op.f('room_access_users_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_table('turns',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('front_end', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'open'"), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('reply_to', sa.Text(), nullable=False),
    sa.Column('private', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('opened_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('closes_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('count', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('restarted', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('rebuilt', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('shown', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('job_id', sa.BigInteger(), nullable=True),
    sa.Column('trace', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('version', sa.BigInteger(), server_default=sa.text('1'), nullable=False),
    sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('turns_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('turns_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('turns_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('turns_pkey')),
    sa.UniqueConstraint('key', name=op.f('turns_key_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('turns_open_idx', 'turns', ['room_id', 'person_id'], unique=False, schema='voidbot', postgresql_where=sa.text("state in ('open', 'running')"))
    op.create_table('usage',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('reservation_id', sa.BigInteger(), nullable=True),
    sa.Column('job_id', sa.BigInteger(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('model', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('provider', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('tier', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('purpose', sa.Text(), nullable=False),
    sa.Column('input_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('cached_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('usd_micro', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('priced', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('estimated', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('result', sa.Text(), server_default=sa.text("'ok'"), nullable=False),
    sa.Column('community_id', sa.BigInteger(), nullable=True),
    sa.Column('room_id', sa.BigInteger(), nullable=True),
    sa.Column('person_id', sa.BigInteger(), nullable=True),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.ForeignKeyConstraint(['community_id'], ['voidbot.communities.id'], name=op.f('usage_community_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('usage_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('usage_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('usage_pkey')),
    sa.UniqueConstraint('reservation_id', name=op.f('usage_reservation_id_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('usage_at_idx'), 'usage', ['at'], unique=False, schema='voidbot')
    op.create_index(op.f('usage_person_id_at_idx'), 'usage', ['person_id', 'at'], unique=False, schema='voidbot')
    op.create_index(op.f('usage_room_id_at_idx'), 'usage', ['room_id', 'at'], unique=False, schema='voidbot')
    op.create_table('decisions',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('inbox_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=False),
    sa.Column('message_ref', sa.Text(), nullable=False),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('settings_version', sa.BigInteger(), server_default=sa.text('1'), nullable=False),
    sa.Column('gates', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.ForeignKeyConstraint(['inbox_id'], ['voidbot.inbox.id'], name=op.f('decisions_inbox_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('decisions_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('decisions_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('decisions_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('decisions_inbox_id_idx'), 'decisions', ['inbox_id'], unique=False, schema='voidbot')
    op.create_index(op.f('decisions_room_id_at_idx'), 'decisions', ['room_id', 'at'], unique=False, schema='voidbot')
    op.create_table('message_revisions',
    sa.Column('message_id', sa.BigInteger(), nullable=False),
    sa.Column('revision', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('archived_seq', sa.BigInteger(), nullable=False),
    sa.Column('text', sa.Text(), nullable=True),
    sa.Column('seen_at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.ForeignKeyConstraint(['message_id'], ['voidbot.messages.id'], name=op.f('message_revisions_message_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('message_revisions_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('message_id', 'revision', name=op.f('message_revisions_pkey')),
    sa.UniqueConstraint('room_id', 'archived_seq', name=op.f('message_revisions_room_id_archived_seq_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_table('outbox_parts',
    sa.Column('outbox_id', sa.BigInteger(), nullable=False),
    sa.Column('n', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('text', sa.Text(), nullable=True),
    sa.Column('nonce', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'ready'"), nullable=False),
    sa.Column('attempt', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('plain', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('first_attempt_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('external_id', sa.Text(), nullable=True),
    sa.Column('sent_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('final_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['outbox_id'], ['voidbot.outbox.id'], name=op.f('outbox_parts_outbox_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('outbox_id', 'n', name=op.f('outbox_parts_pkey')),
    sa.UniqueConstraint('nonce', name=op.f('outbox_parts_nonce_key')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_table('receipts',
    sa.Column('outbox_id', sa.BigInteger(), nullable=False),
    sa.Column('room_id', sa.BigInteger(), nullable=False),
    sa.Column('person_id', sa.BigInteger(), nullable=True),
    sa.Column('trigger', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('rule', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('provider', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('model', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('usd_micro', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('input_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('prompt_sha256', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('role', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('persona', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('gates', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('sections', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
    sa.Column('guards', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
    sa.Column('external_ids', postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('source_gone', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('voidbot.now()'), nullable=False),
    sa.Column('delivered_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['outbox_id'], ['voidbot.outbox.id'], name=op.f('receipts_outbox_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['person_id'], ['voidbot.people.id'], name=op.f('receipts_person_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['room_id'], ['voidbot.rooms.id'], name=op.f('receipts_room_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('outbox_id', name=op.f('receipts_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index(op.f('receipts_room_id_at_idx'), 'receipts', ['room_id', 'at'], unique=False, schema='voidbot')
    op.create_table('receipt_sources',
    sa.Column('outbox_id', sa.BigInteger(), nullable=False),
    sa.Column('n', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('ref', sa.Text(), nullable=False),
    sa.Column('audience', postgresql.ARRAY(sa.BigInteger()), nullable=False),
    sa.ForeignKeyConstraint(['outbox_id'], ['voidbot.receipts.outbox_id'], name=op.f('receipt_sources_outbox_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('outbox_id', 'n', name=op.f('receipt_sources_pkey')),
    schema='voidbot',
    info={'person': True}
    )
    op.create_index('messages_own_idx', 'messages', ['room_id', 'sent_at', 'id'], schema='voidbot', postgresql_where=sa.text("kind = 'bot_reply'"))
    op.create_index('inbox_room_id_person_id_id_idx', 'inbox', ['room_id', 'person_id', 'id'], schema='voidbot')
    op.create_index('inbox_refused_idx', 'inbox', ['received_at'], schema='voidbot', postgresql_where=sa.text("turn_id is null and text <> ''"))
    op.create_index('outbox_body_idx', 'outbox', ['closed_at'], schema='voidbot', postgresql_where=sa.text("body is not null"))
    op.create_index('outbox_room_id_reply_to_idx', 'outbox', ['room_id', 'reply_to'], schema='voidbot')
    op.create_index('outbox_job_id_idx', 'outbox', ['job_id'], schema='voidbot')
    op.create_index('console_messages_text_idx', 'console_messages', ['at'], schema='voidbot', postgresql_where=sa.text("text <> ''"))


def downgrade() -> None:
    op.execute("drop schema voidbot cascade")
